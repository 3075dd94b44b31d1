"""Benchmarks: the bundled engine and a real redis-server, measured alternately with the same client and bytes.

Run with `python -m benchmarks`. The product imports nothing from here.
"""
