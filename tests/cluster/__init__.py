"""Spark on a cluster of real processes. `make test-cluster` runs it: it takes minutes, so `make test` does not."""
