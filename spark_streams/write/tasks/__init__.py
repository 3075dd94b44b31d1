"""Writing tasks: rows are sent in chunks, in transactions with fences, or staged for the driver.

May import `executor`, `protocol`, `rows` and client. Knows nothing of Spark, nor of how a batch ends.
"""
