"""Consuming a group that other programs consume as well: each task reads new entries as a consumer of its own.

Owns the protocol between planner and tasks, both halves of it, and dead letters. May import the pure modules of `read`
and the rooms below. Knows nothing of ranges and how they are delivered.
"""
