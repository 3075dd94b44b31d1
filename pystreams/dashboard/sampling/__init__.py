"""Sampling: one thread samples the server every few seconds for all browsers, and keeps the last sample.

Owns snapshots, which are immutable, and the numbers that are added to the history. This room does not use HTTP.
"""
