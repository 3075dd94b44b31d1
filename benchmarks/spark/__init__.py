"""The connector compared with simple code without it and with Spark's own limit, and its cost for the driver.

May import the connector, and the servers and reports of `benchmarks`.
"""
