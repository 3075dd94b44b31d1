"""Streams in Redis's RDB format: nodes of entries, written and read entry by entry or many nodes at once, and groups.

This package imports the streams and the format's building blocks. It does not depend on files, or on other types of
values.
"""
