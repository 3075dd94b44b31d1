"""Soak test: mixed load on one engine for a long time, while its memory, latency and files are watched.

``python -m benchmarks.soak`` runs it. The rate of the load is limited, so that growth means that the engine keeps
something, not that it cannot keep up; and the machine remains usable.
"""
