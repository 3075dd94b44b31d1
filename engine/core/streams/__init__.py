"""Streams as data: entries in segments, trimming, consumer groups with their pending entries, idempotent producers.

It imports replies, IDs and arguments (``engine.core.protocol``), the settings, and error texts. It does not depend
on commands, keys, databases, clients or the clock: names, IDs and times are passed in as arguments.
"""
