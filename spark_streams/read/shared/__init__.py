"""Sharing a consumer group with other programs: each task reads new entries as a consumer of its own.

Owns the protocol between planner and tasks, both halves of it, and dead letters. May import `query` beside it and the
rooms below. Knows nothing of ranges and how they are delivered.
"""
