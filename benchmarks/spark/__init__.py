"""Benchmarks of the connector: comparisons with simple code and with Spark's own limit, and its cost for the driver.

May import the connector, and the servers and reports of `benchmarks`.
"""
