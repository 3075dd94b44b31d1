"""Commands for a stream's entries: adding, trimming, deleting, ranges, and idempotent production.

This package may import the streams, the command table, and the helpers of all stream commands. It does not depend on
how groups are read. The effect of a deletion on pending entries is defined by ``engine.core.streams.trimming``.
"""

from engine.core.commands.streams.entries import columns, ranges, removal, xadd

__all__ = ["columns", "ranges", "removal", "xadd"]
