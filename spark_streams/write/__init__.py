"""Writing DataFrames to streams: rows are encoded as XADDs and sent at least once, or exactly once behind fences.

`sink` is what Spark calls. `tasks` write in the workers, `commit` ends a batch on the driver, `rows` are rows as
commands. `protocol` is the record that an exactly-once write leaves on servers: pure, as is `reconciliation`, and run
by `executor`. May import columns, client, embedded and config. Does not depend on reading, or on how a column's value
becomes text.
"""
