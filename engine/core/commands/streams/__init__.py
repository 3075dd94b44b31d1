"""Commands of streams and consumer groups.

It contains helpers for both rooms (``lookups``, ``many_ids``) and the commands that concern entries and
groups alike (XINFO, ``PS.*``).
"""

from engine.core.commands.streams import entries, extensions, groups, stream_info

__all__ = ["entries", "extensions", "groups", "stream_info"]
