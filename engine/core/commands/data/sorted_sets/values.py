"""What commands on sorted sets have in common: finding the value, members in replies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.core.keyspace.sorted_set import Pair, SortedSet
from engine.core.protocol.replies import Reply

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: More members are gathered in steps and replied with in pages.
MANY = 5000
#: So many are changed in one step.
AT_ONCE = 500


def read_sorted_set(ctx: Context, key: bytes) -> SortedSet:
    """The sorted set at ``key``, for a command that only reads; an empty one where there is none."""
    value: SortedSet | None = ctx.db.read_typed(key, SortedSet)
    return value if value is not None else SortedSet()


def sorted_set_at(ctx: Context, key: bytes) -> SortedSet | None:
    """The sorted set at ``key``, for a change."""
    value: SortedSet | None = ctx.db.typed(key, SortedSet)
    return value


def shown(pairs: Iterable[Pair], *, with_scores: bool, in_pairs: bool) -> list[Reply]:
    """The elements of a reply: members, or members with scores, which RESP3 has ``in_pairs`` and RESP2 in a row."""
    if not with_scores:
        return [member for _, member in pairs]
    if in_pairs:
        return [[member, score] for score, member in pairs]
    return [part for score, member in pairs for part in (member, score)]
