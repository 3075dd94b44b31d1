"""Spark's Kafka source and sink compared with the connector's, on the same rows: `python -m benchmarks.kafka`.

Owns the jars (downloaded, never committed), a broker of one process, and the compared ways. It may import the other
benchmarks' servers, sessions and tables; they do not import it.
"""
