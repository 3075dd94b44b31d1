"""The connector beside what one would write without it and beside Spark's own ceiling, and what it costs the driver.

May import the connector, and the servers and reports of `benchmarks`.
"""
