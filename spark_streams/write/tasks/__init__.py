"""Writing tasks: rows are sent in chunks, in transactions with fences, or staged for the driver.

May import `executor`, `protocol`, `rows` and client. Does not depend on Spark, or on the end of a batch.
"""
