"""Metrics for Prometheus: samples of servers, under the names that redis_exporter uses.

This package contains the list of metrics, their collection at a bounded cost, and their exposition over HTTP. It may
import `pystreams.streams` and `pystreams.connect`, but not verbs or the terminal.
"""
