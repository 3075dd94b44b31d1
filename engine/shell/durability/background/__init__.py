"""Background work: threads, attempts at writing a file, and images taken over several event-loop iterations.

It may import the core's images and the calls that touch the disk (`engine.shell.durability.files`). It does not depend
on the content or the later use of a file.
"""
