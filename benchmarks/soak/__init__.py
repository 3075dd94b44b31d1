"""A soak: mixed load on one engine for a long time, while its memory, latency and files are watched.

``python -m benchmarks.soak`` runs it. The load is limited in its rate, so that what grows does so because the engine
keeps it, not because it cannot follow; and the machine remains usable.
"""
