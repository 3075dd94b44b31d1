"""Reading streams into Spark: batches and micro-batches, planned on the driver, read by tasks.

Owns offsets, planning, loss detection, and the two ways of consuming (by ranges, or sharing a group in `shared`). May
import columns, server, client, embedded and config. Knows nothing of writing, nor how a value becomes a column's value.
"""
