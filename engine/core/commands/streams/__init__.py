"""Commands of streams and consumer groups.

`xadd` adds entries, alone and in runs; `entries` reads and removes them; `columns` adds and reads them as columns;
`groups` has XGROUP, XINFO and the effects of reading in a group; `reads` and `pending_entries` serve its consumers;
`extensions` has the other commands that Redis lacks. The handler of a blocking command returns BLOCKED, and runs again
when there may be data.
"""

from engine.core.commands.streams import columns, entries, extensions, groups, pending_entries, reads, xadd

__all__ = ["columns", "entries", "extensions", "groups", "pending_entries", "reads", "xadd"]
