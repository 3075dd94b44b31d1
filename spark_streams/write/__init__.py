"""Writing DataFrames to streams: rows are encoded as XADDs and sent at least once, or exactly once behind fences.

`sink` is what Spark calls. `tasks` write in the workers, `commit` ends a batch on the driver, `records` are what
servers remember, `rows` are rows as commands. May import columns, client, embedded and config. Knows nothing of
reading, nor how a column's value becomes text.
"""
