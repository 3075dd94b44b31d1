"""Verbs about entries: reading and adding them, copying them to files and servers, dead letters, and trimming.

This package may import the common parts of verbs (`verbs`, `selection`), the requests of `pystreams.streams`, and
files.
"""
