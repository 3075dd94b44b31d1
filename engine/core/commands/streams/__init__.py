"""Commands of streams and consumer groups.

Commands that concern both entries and groups (XINFO, ``PS.*``), and helpers shared by the rooms ``entries`` and
``groups`` (``lookups``, ``many_ids``).
"""

from engine.core.commands.streams import entries, extensions, groups, stream_info

__all__ = ["entries", "extensions", "groups", "stream_info"]
