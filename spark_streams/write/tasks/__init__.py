"""What a writing task does: it sends rows in chunks, in transactions behind fences, or stages them for the driver.

May import `records`, `rows` and client. Knows nothing of Spark, nor of how a batch ends.
"""
