"""Spark's Kafka source and sink compared with the connector's, on the same rows: `python -m benchmarks.kafka`.

It contains a broker of one process, the compared workloads, and the download of Kafka's jars, which are never
committed. It may import the servers, sessions and tables of the other benchmarks, which do not import it.
"""
