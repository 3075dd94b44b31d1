"""Consuming by ranges: the query owns its positions, and a task reads from one ID to another.

Owns where batches begin and end, what makes a stream's positions go on, and the query's own consumer group. May import
`query` beside it and the rooms below. Knows nothing of groups that other programs consume as well.
"""
