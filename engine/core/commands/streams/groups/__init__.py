"""Commands of readers: XREAD and XREADGROUP, consumer groups, claiming, acknowledging, and the effects they leave.

It may import the commands about entries. It never knows how a client waits: a handler returns BLOCKED, and is
run again.
"""

from engine.core.commands.streams.groups import claims, pending_entries, reads, xgroup

__all__ = ["claims", "pending_entries", "reads", "xgroup"]
