"""Sorted sets: members with their scores, ranges, pops from either end, and operations on several sets.

This package has the import rules of ``engine.core.commands.data``. It does not depend on streams.
"""

from engine.core.commands.data.sorted_sets import algebra, members, pops, ranges

__all__ = ["algebra", "members", "pops", "ranges"]
