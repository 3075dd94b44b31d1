"""The driver's end of a batch: examines the streams, judges the rows of the tasks, and publishes staged rows.

May import all of `write` but `sink`, and client. Does not depend on Spark.
"""
