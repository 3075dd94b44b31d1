"""Benchmarks: the bundled engine and a real redis-server in turns, with the same client and the same bytes.

Run with `python -m benchmarks`. The product imports nothing from here.
"""
