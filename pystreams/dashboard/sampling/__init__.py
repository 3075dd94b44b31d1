"""Sampling: one thread looks at the server every few seconds, however many browsers there are, and keeps what it saw.

Owns snapshots, which are values, and the numbers that go into the history. Knows no HTTP.
"""
