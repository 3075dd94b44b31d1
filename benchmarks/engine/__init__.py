"""Benchmarks of the engine and redis-server, with the same bytes: speed, latency, memory, durability.

May import the servers, the machine and the reports of `benchmarks`. Does not use Spark.
"""
