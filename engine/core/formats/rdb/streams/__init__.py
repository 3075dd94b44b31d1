"""Streams in Redis's RDB format: nodes of entries, written and read entry by entry or many nodes at once, and groups.

It imports the streams and the format's building blocks. It never knows of files, or of other types of values.
"""
