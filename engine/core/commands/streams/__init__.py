"""Commands of streams and consumer groups.

This package contains commands for both entries and groups (XINFO, ``PS.*``), and helpers (``lookups``, ``many_ids``)
that its packages ``entries`` and ``groups`` share.
"""

from engine.core.commands.streams import entries, extensions, groups, stream_info

__all__ = ["entries", "extensions", "groups", "stream_info"]
