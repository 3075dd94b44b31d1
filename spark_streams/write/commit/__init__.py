"""The driver's end of a batch: it looks at the streams, judges what tasks brought, publishes what they staged.

May import all of `write` but `sink`, and client. Knows nothing of Spark.
"""
