"""Reading with consume=range: the query owns its positions, and a task reads from one ID to another.

Owns the start and end of batches, the continuity of positions, and the query's own consumer group. May import `query`
and the packages below. Does not depend on groups that other programs consume as well.
"""
