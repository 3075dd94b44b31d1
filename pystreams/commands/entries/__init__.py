"""Verbs about entries: reading and adding them, files and other servers, dead letters and trimming.

May import the common parts of verbs (`verbs`, `selection`), the questions of `pystreams.streams`, and files.
"""
