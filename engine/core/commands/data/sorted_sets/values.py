"""Helpers of sorted set commands: finding the value, and formatting members in replies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.core.keyspace.order import Pair
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.replies import Reply

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: More members than this number are read in steps and sent in pages.
MANY = 5000
#: More members than this number are changed in steps. Also the number of members changed per step.
AT_ONCE = 500


def read_sorted_set(ctx: Context, key: bytes) -> SortedSet:
    """Return the sorted set at ``key`` for reading; an empty sorted set if the key does not exist."""
    value: SortedSet | None = ctx.db.read_typed(key, SortedSet)
    return value if value is not None else SortedSet()


def sorted_set_at(ctx: Context, key: bytes) -> SortedSet | None:
    """Return the sorted set at ``key`` for changes."""
    value: SortedSet | None = ctx.db.typed(key, SortedSet)
    return value


def shown(pairs: Iterable[Pair], *, with_scores: bool, in_pairs: bool) -> list[Reply]:
    """Return the elements of a reply: members, with scores if requested, as pairs (RESP3) or flat (RESP2)."""
    if not with_scores:
        return [member for _, member in pairs]
    if in_pairs:
        return [[member, score] for score, member in pairs]
    return [part for score, member in pairs for part in (member, score)]
