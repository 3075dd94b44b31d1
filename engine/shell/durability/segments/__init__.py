"""The segment files: where the cold entries of streams lie when ``stream-storage`` is ``disk``.

It may import the core's streams, the calls that touch the disk and the log of the process. It never knows keys or
commands, nor when a snapshot is written: who refers to a file is told to it.
"""
