"""End of a batch on the driver: examines the streams, checks the rows of the tasks, and publishes staged rows.

May import all of `write` but `sink`, and client. Does not depend on Spark.
"""
