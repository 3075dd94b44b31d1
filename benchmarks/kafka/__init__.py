"""Spark's Kafka source and sink compared with the connector's, on the same rows: `python -m benchmarks.kafka`.

It contains the download of the jars, which are never committed, a broker of one process, and the compared workloads. It
may import the servers, sessions and tables of the other benchmarks, which do not import it.
"""
