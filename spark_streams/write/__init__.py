"""Writing DataFrames to streams: rows are encoded as XADDs and sent at least once, or exactly once behind fences.

Owns what a writing task does, the fences, and trimming. May import columns, client, embedded and config. Knows nothing
of reading, nor how a column's value becomes text.
"""
