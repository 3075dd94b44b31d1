"""End of a batch on the driver: examines the streams, checks the rows of the tasks, and publishes staged rows.

May import client, and all modules of `write` except `sink`. Does not depend on Spark.
"""
