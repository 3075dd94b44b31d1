"""Reading streams into Spark: batches and micro-batches, planned on the driver, read by tasks.

Owns the answers to Spark's calls: batch and streaming readers, filter pushdown, schema inference. The two ways of
consuming are in `ranges` and `shared`, which share the base `query`. May import columns, the client, embedded and
config. Does not depend on writing, or on how a field becomes a column's value.
"""
