"""Data structures of streams: entries in segments, trimming, groups with their pending entries, idempotent producers.

This package imports replies, IDs and arguments (``engine.core.protocol``), encodings of entries (``streamwire``), the
settings, and error texts. It does not depend on commands, keys, databases, clients or the clock: names, IDs and times
are passed in as arguments.
"""
