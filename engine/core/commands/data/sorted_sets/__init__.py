"""Sorted sets: members with their scores, ranges of them, taking them from either end, and several sets together.

It may import what the room around it may, and knows nothing of streams.
"""

from engine.core.commands.data.sorted_sets import algebra, members, pops, ranges

__all__ = ["algebra", "members", "pops", "ranges"]
