"""Verbs about consumer groups: where they stand, what is pending, and Spark's checkpoints beside them.

May import what every verb has (`verbs`, `selection`) and the questions of `pystreams.streams`.
"""
