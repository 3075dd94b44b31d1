"""Ranges of sorted sets: parsing a command's words, and finding the corresponding ranks in a sorted set.

Ranges are by rank, by score, or by member. Ranges by member require equal scores. If scores differ, the result is the
same as in Redis for a listpack. For a skiplist, Redis defines no result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from engine.core.keyspace.order import Pair
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import CommandError
from engine.text import doubles
from engine.text.messages import data

#: Half-open range of ranks.
Span = tuple[int, int]
#: Function that finds the span of a range in a sorted set. ``reverse``: whether the range is read in reverse.
Finder = Callable[[SortedSet, bool], Span]


def by_rank(start: bytes, stop: bytes) -> Finder:
    """Return a finder for inclusive ranks; negative ranks count from the end. In reverse, rank 0 is the last member."""
    first, last = parse_int(start), parse_int(stop)

    def find(members: SortedSet, reverse: bool) -> Span:
        size = len(members)
        low = max(first + size, 0) if first < 0 else min(first, size)
        high = min((last + size if last < 0 else last) + 1, size)
        high = max(low, high)
        return (size - high, size - low) if reverse else (low, high)

    return find


@dataclass(frozen=True, slots=True)
class _Score:
    """An end of a range by score, inclusive or exclusive."""

    score: float
    excluded: bool


def _score(word: bytes) -> _Score:
    excluded = word[:1] == b"("
    score = doubles.parse_bound(word[excluded:])
    if score is None:
        raise CommandError(data.SCORE_BOUND)
    return _Score(score, excluded)


def by_score(low: bytes, high: bytes) -> Finder:
    """Return a finder for scores. An end is inclusive unless it starts with ``(``."""
    least, most = _score(low), _score(high)

    def find(members: SortedSet, reverse: bool) -> Span:
        start = (members.up_to if least.excluded else members.below)(least.score)
        stop = (members.below if most.excluded else members.up_to)(most.score)
        return start, max(start, stop)

    return find


@dataclass(frozen=True, slots=True)
class _Member:
    """An end of a range by member; ``beyond`` is -1 before all members, 1 after all, and 0 at ``member``."""

    member: bytes
    excluded: bool = False
    beyond: int = 0

    def precedes(self, member: bytes) -> bool:
        """Return whether a range that starts here includes the member."""
        if self.beyond:
            return self.beyond < 0
        return self.member < member or (self.member == member and not self.excluded)

    def follows(self, member: bytes) -> bool:
        """Return whether a range that ends here includes the member."""
        if self.beyond:
            return self.beyond > 0
        return member < self.member or (self.member == member and not self.excluded)


_ENDS = {b"-": _Member(b"", beyond=-1), b"+": _Member(b"", beyond=1)}


def _member(word: bytes) -> _Member:
    if word in _ENDS:
        return _ENDS[word]
    if word[:1] not in (b"[", b"(") or not word:
        raise CommandError(data.MEMBER_BOUND)
    return _Member(word[1:], excluded=word[:1] == b"(")


def _name(pair: Pair) -> bytes:
    return pair[1]


def by_member(low: bytes, high: bytes) -> Finder:
    """Return a finder for members. An end is ``[member`` (inclusive), ``(member`` (exclusive), ``-`` or ``+``."""
    least, most = _member(low), _member(high)

    def find(members: SortedSet, reverse: bool) -> Span:
        if not members:
            return 0, 0
        return _sought(members, least, most) if members.big else _walked(members, least, most, reverse=reverse)

    return find


def _sought(members: SortedSet, least: _Member, most: _Member) -> Span:
    order, size = members.order, len(members)
    if least.beyond:
        start = 0 if least.beyond < 0 else size
    else:
        start = (bisect_right if least.excluded else bisect_left)(order, least.member, key=_name)
    if most.beyond:
        stop = size if most.beyond > 0 else 0
    else:
        stop = (bisect_left if most.excluded else bisect_right)(order, most.member, key=_name)
    return start, max(start, stop)


def _walked(members: SortedSet, least: _Member, most: _Member, *, reverse: bool) -> Span:
    names = [member for _, member in members.order]
    size = len(names)
    if not (least.precedes(names[-1]) and most.follows(names[0])):
        return 0, 0
    if reverse:
        stop = next((at + 1 for at in range(size - 1, -1, -1) if most.follows(names[at])), 0)
        start = next((at + 1 for at in range(stop - 1, -1, -1) if not least.precedes(names[at])), 0)
    else:
        start = next((at for at in range(size) if least.precedes(names[at])), size)
        stop = next((at for at in range(start, size) if not most.follows(names[at])), size)
    return start, max(start, stop)
