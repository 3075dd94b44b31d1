"""Benchmarks of the connector: against simple code, against Spark's own limit, and of its cost for the driver.

May import the connector, and the servers and reports of `benchmarks`.
"""
