"""Metrics for Prometheus: what servers report becomes samples, under the names that redis_exporter uses.

Owns which metrics there are, how they are collected at a bounded cost, and their exposition over HTTP. May import the
questions to servers (`pystreams.streams`) and the way to them (`pystreams.connect`). Knows no verb and no terminal.
"""
