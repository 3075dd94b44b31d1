"""Sampling: one thread samples the server every few seconds for all browsers, and keeps the last sample.

This package contains snapshots, which are immutable, and the numbers that are added to the history. It does not use
HTTP.
"""
