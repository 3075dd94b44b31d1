"""Metrics for Prometheus: samples of servers, under the names that redis_exporter uses.

Owns the list of metrics, their collection at a bounded cost, and their exposition over HTTP. May import
`pystreams.streams` and `pystreams.connect`. Does not depend on verbs or the terminal.
"""
