"""Reading streams into Spark: batches and micro-batches, planned on the driver, read by tasks.

Owns the answers to Spark's calls: batch and streaming readers, filter pushdown, schema inference. The two ways of
consuming are the rooms `ranges` and `shared`, and `query` is what both build on. May import columns, server, client,
embedded and config. Knows nothing of writing, nor how a value becomes a column's value.
"""
