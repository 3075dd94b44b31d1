"""Writing DataFrames to streams: rows are encoded as XADDs and sent at least once, or exactly once with fences.

Spark calls `sink`. `exactly_once` and `at_least_once` write in the workers, `publishing` ends a batch on the driver,
and `encoding` encodes rows as commands. `records` and `protocol` define what an exactly-once write leaves on servers;
`executor` reads and changes it there. `protocol` is pure. May import columns, client, embedded and config. Does not
depend on reading.
"""
