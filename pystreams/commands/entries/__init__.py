"""Verbs about entries: reading and adding them, files and other servers, dead letters and trimming.

May import what every verb has (`verbs`, `selection`), the questions of `pystreams.streams`, and files.
"""
