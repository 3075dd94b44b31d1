"""Commands of readers: XREAD and XREADGROUP, consumer groups, claiming, acknowledging, and their effects.

This package may import the commands for entries. It does not depend on how clients wait: the handler of a blocking
command returns BLOCKED, and runs again when there may be data.
"""

from engine.core.commands.streams.groups import claims, pending_entries, reads, xgroup

__all__ = ["claims", "pending_entries", "reads", "xgroup"]
