"""The driver's end of a batch: it looks at the streams, judges what tasks brought, publishes what they staged.

May import `tasks`, `records`, `rows` and client. Knows nothing of Spark.
"""
