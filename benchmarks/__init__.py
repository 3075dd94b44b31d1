"""Measurements side by side: the bundled engine and a real redis-server, same client, same bytes, taking turns.

Run with `python -m benchmarks`. Nothing here is imported by the product.
"""
