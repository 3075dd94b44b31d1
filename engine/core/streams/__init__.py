"""Streams as data: entries in segments, trimming, consumer groups with their pending entries, idempotent producers.

It imports replies, IDs and arguments (:mod:`engine.core.protocol`), the settings, and error texts. It never knows
commands, keys, databases, clients or the clock: names, IDs and times come in as arguments.
"""
