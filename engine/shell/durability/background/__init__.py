"""Work beside the event loop: its threads, attempts at writing a file, and images taken in several iterations.

It may import the calls that touch the disk (:mod:`engine.shell.durability.files`). It never knows what is written, or
what becomes of the file.
"""
