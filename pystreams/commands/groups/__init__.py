"""Verbs about consumer groups: positions, pending entries, and a comparison with Spark's checkpoints.

This package may import the common parts of verbs (`verbs`, `selection`) and the requests of `pystreams.streams`.
"""
