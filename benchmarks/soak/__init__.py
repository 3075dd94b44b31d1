"""Soak test: mixed load on one engine for a long time, while its memory, latency and files are watched.

``python -m benchmarks.soak`` runs it. The rate of the load is limited. Growth therefore means a leak, not a backlog of
work, and the machine remains usable.
"""
