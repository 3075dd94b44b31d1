"""Reading with consume=shared: each task reads new entries as a separate consumer.

Owns both halves of the protocol between planner and tasks, and dead letters. May import `query` and the packages below.
Does not depend on ranges and their delivery.
"""
