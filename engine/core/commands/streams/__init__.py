"""Commands of streams and consumer groups.

Here stand what both rooms use (``lookups``, ``many_ids``) and the commands that show or do something about entries and
groups at once (XINFO, ``PS.*``).
"""

from engine.core.commands.streams import entries, extensions, groups, stream_info

__all__ = ["entries", "extensions", "groups", "stream_info"]
