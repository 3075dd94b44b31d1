"""Writing DataFrames to streams: rows are encoded as XADDs and sent at least once, or exactly once with fences.

Spark calls `sink`. `tasks` write in the workers, `commit` ends a batch on the driver, and `rows` encodes rows as
commands. `protocol` defines the records that an exactly-once write leaves on servers; `executor` reads and changes them
there. `protocol` and `reconciliation` are pure. May import columns, client, embedded and config. Does not depend on
reading, or on how a column's value becomes text.
"""
