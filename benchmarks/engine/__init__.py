"""The engine beside redis-server: the same client, the same bytes, in turns: speed, latency, memory, durability.

May import the servers, the machine and the reports of `benchmarks`. Knows no Spark.
"""
