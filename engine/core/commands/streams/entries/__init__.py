"""Commands about a stream's entries: adding, trimming, deleting, ranges, and idempotent production.

It may import the streams, the command table and what all stream commands share. It never knows how groups are
read; what a deletion does to pending entries is a rule of the streams themselves (:mod:`engine.core.streams.trimming`).
"""

from engine.core.commands.streams.entries import column_adds, column_ranges, production, ranges, removal, xadd

__all__ = ["column_adds", "column_ranges", "production", "ranges", "removal", "xadd"]
