"""Spark's own Kafka source and sink beside the connector's, on the same rows: `python -m benchmarks.kafka`.

Owns the jars (fetched, never committed), a broker of one process, and the ways that are compared. It may
import the other measurements' servers, sessions and tables; none of them knows it.
"""
