"""Ranges of sorted sets: counting, reading, storing and removing them.

Long ranges are read in steps and sent in pages, but reflect one moment. They are also removed in steps, between which
other commands may add and remove members.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from engine.core.commands.data.mutations import changed, delete_whole
from engine.core.commands.data.sorted_sets import spans
from engine.core.commands.data.sorted_sets.results import store
from engine.core.commands.data.sorted_sets.spans import Finder, Span
from engine.core.commands.data.sorted_sets.values import (
    AT_ONCE,
    MANY,
    read_sorted_set,
    shown,
    sorted_set_at,
)
from engine.core.commands.families import sorted_set_command
from engine.core.keyspace.elements import gathered_parts
from engine.core.keyspace.order import Pair
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Pages, Reply
from engine.core.table.registry import Keys
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Number of pairs copied per step.
_PART = 2000
_FINDERS: dict[bytes, Callable[[bytes, bytes], Finder]] = {
    b"RANK": spans.by_rank,
    b"SCORE": spans.by_score,
    b"LEX": spans.by_member,
}


# -- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Range:
    """The arguments of a range command."""

    find: Finder
    reverse: bool
    with_scores: bool
    #: First number of LIMIT: number of members skipped at the start.
    offset: int
    #: Second number of LIMIT: maximum number of members; negative: all.
    count: int

    def span(self, members: SortedSet) -> Span:
        """Return the range's ranks in a sorted set."""
        start, stop = self.find(members, self.reverse)
        if self.offset < 0:
            return 0, 0
        if self.reverse:
            stop = max(start, stop - self.offset)
            return (start if self.count < 0 else max(start, stop - self.count)), stop
        start = min(start + self.offset, stop)
        return start, (stop if self.count < 0 else min(stop, start + self.count))


def _parse(argv: list[bytes], at: int, *, by: bytes = b"", reverse: bool | None = None, stores: bool = False) -> _Range:
    """Parse a range from ``at`` on: two ends, and options.

    Commands whose name implies ``by`` or ``reverse`` pass these arguments.
    """
    ends, args = argv[at : at + 2], Args(argv, at + 2)
    with_scores, offset, count = False, 0, -1
    backwards = reverse
    while len(args):
        if not stores and args.flag(b"WITHSCORES"):
            with_scores = True
        elif len(args) > 2 and args.flag(b"LIMIT"):
            offset, count = args.take_int(), args.take_int()
        elif backwards is None and args.flag(b"REV"):
            backwards = True
        elif not by and args.flag(b"BYLEX"):
            by = b"LEX"
        elif not by and args.flag(b"BYSCORE"):
            by = b"SCORE"
        else:
            raise CommandError(general.SYNTAX)
    by = by or b"RANK"
    if by == b"RANK":
        if count != -1:
            raise CommandError(data.LIMIT_OF_RANKS)
        offset = 0
    if with_scores and by == b"LEX":
        raise CommandError(data.SCORES_BY_LEX)
    if backwards and by != b"RANK":
        ends.reverse()
    return _Range(_FINDERS[by](*ends), bool(backwards), with_scores, offset, count)


# -- counting ---------------------------------------------------------------------------------------------------------


def _count(ctx: Context, argv: list[bytes], *, by: bytes) -> Reply:
    find = _FINDERS[by](argv[2], argv[3])
    start, stop = find(read_sorted_set(ctx, argv[1]), False)
    return stop - start


for _name, _by, _since, _where in (
    ("zcount", b"SCORE", "2.0.0", "in a range of scores."),
    ("zlexcount", b"LEX", "2.8.9", "between two members. All scores must be equal."),
):
    sorted_set_command(
        f"{_name} key min max",
        "readonly fast",
        since=_since,
        complexity="O(log(size))",
        summary=f"Returns the number of members {_where}",
    )(partial(_count, by=_by))


# -- reading ----------------------------------------------------------------------------------------------------------


def in_pages(
    ctx: Context,
    argv: list[bytes],
    members: SortedSet,
    span: Callable[[SortedSet], Span],
    *,
    reverse: bool = False,
    with_scores: bool = False,
) -> Reply:
    """Return the members of a span as a reply, in steps and pages if there are many."""
    in_pairs = ctx.resp3
    start, stop = span(members)
    if stop == start:
        return []
    if not with_scores and stop - start <= MANY:
        names = members.order.members_between(start, stop)
        return names[::-1] if reverse else names
    if stop - start <= MANY:
        pairs = members.order.between(start, stop)
        if reverse:
            pairs.reverse()
        return shown(pairs, with_scores=True, in_pairs=in_pairs)
    parts = _copied(members, start, stop, reverse=reverse)

    def work() -> Generator[None, None, Reply]:
        return pages_of((yield from gathered_parts(parts)), with_scores=with_scores, in_pairs=in_pairs)

    return ctx.in_steps(argv, work())


def _copied(members: SortedSet, start: int, stop: int, *, reverse: bool) -> Iterator[list[Pair]]:
    begins = range(start, stop, _PART)
    for begin in reversed(begins) if reverse else begins:
        pairs = members.order.between(begin, min(begin + _PART, stop))
        if reverse:
            pairs.reverse()
        yield pairs


def pages_of(parts: list[list[Pair]], *, with_scores: bool, in_pairs: bool) -> Pages:
    """Return the pairs of ``parts`` as a long reply. ``parts`` is emptied while the reply is sent."""
    count = sum(map(len, parts))
    parts.reverse()
    # Each part is freed when it is sent, because freeing all of them at once would block the server.
    pages = (shown(parts.pop(), with_scores=with_scores, in_pairs=in_pairs) for _ in range(len(parts)))
    return Pages(list, 2 * count if with_scores and not in_pairs else count, pages)


def _read(ctx: Context, argv: list[bytes], *, by: bytes = b"", reverse: bool | None = None) -> Reply:
    wanted = _parse(argv, 2, by=by, reverse=reverse)
    members = read_sorted_set(ctx, argv[1])
    return in_pages(ctx, argv, members, wanted.span, reverse=wanted.reverse, with_scores=wanted.with_scores)


_LIMIT = "[LIMIT offset count]"
for _usage, _by, _reverse, _since, _summary in (
    (
        f"zrange key start stop [BYSCORE | BYLEX] [REV] {_LIMIT} [WITHSCORES]",
        b"",
        None,
        "1.2.0",
        "Returns the members in a range of ranks, scores or members.",
    ),
    (
        "zrevrange key start stop [WITHSCORES]",
        b"RANK",
        True,
        "1.2.0",
        "Returns the members in a range of ranks, in reverse order.",
    ),
    (
        f"zrangebyscore key min max [WITHSCORES] {_LIMIT}",
        b"SCORE",
        False,
        "1.0.5",
        "Returns the members in a range of scores.",
    ),
    (
        f"zrevrangebyscore key max min [WITHSCORES] {_LIMIT}",
        b"SCORE",
        True,
        "2.2.0",
        "Returns the members in a range of scores, in reverse order.",
    ),
    (
        f"zrangebylex key min max {_LIMIT}",
        b"LEX",
        False,
        "2.8.9",
        "Returns the members between two members. All scores must be equal.",
    ),
    (
        f"zrevrangebylex key max min {_LIMIT}",
        b"LEX",
        True,
        "2.8.9",
        "Returns the members between two members, in reverse order. All scores must be equal.",
    ),
):
    sorted_set_command(_usage, "readonly", since=_since, complexity="O(log(size) + members)", summary=_summary)(
        partial(_read, by=_by, reverse=_reverse)
    )


# -- storing ----------------------------------------------------------------------------------------------------------


@sorted_set_command(
    f"zrangestore destination source min max [BYSCORE | BYLEX] [REV] {_LIMIT}",
    "write denyoom",
    keys=Keys(1, 2, 1),
    access="OW update, RO access",
    since="6.2.0",
    complexity="O(log(size) + members)",
)
def zrangestore(ctx: Context, argv: list[bytes]) -> Reply:
    """Stores the members in a range of ranks, scores or members, and returns how many there are."""
    wanted = _parse(argv, 3, stores=True)
    members = read_sorted_set(ctx, argv[2])
    start, stop = wanted.span(members)
    making = gathered_parts(_copied(members, start, stop, reverse=False))
    return store(ctx, argv, making, is_long=stop - start > MANY)


# -- removing ---------------------------------------------------------------------------------------------------------


def _remove(ctx: Context, argv: list[bytes], *, by: bytes) -> Reply:
    key, event = argv[1], argv[0].lower()
    find = _FINDERS[by](argv[2], argv[3])
    members = sorted_set_at(ctx, key)
    if members is None:
        return 0
    start, stop = find(members, False)
    count = stop - start
    if count == len(members):
        delete_whole(ctx, "z", event, key, members)
        return count
    if count <= AT_ONCE:
        if count:
            _cut(ctx, event, key, members, (start, stop))
        return count

    def work() -> Generator[None, None, Reply]:
        for done in range(0, count, AT_ONCE):
            # After each removal, the next members are at the rank ``start``.
            _cut(ctx, event, key, members, (start, start + min(AT_ONCE, count - done)))
            yield
        return count

    return ctx.in_steps(argv, work())


def _cut(ctx: Context, event: bytes, key: bytes, members: SortedSet, span: Span) -> None:
    start, stop = span
    members.cut(start, stop)
    ctx.effect(b"ZREMRANGEBYRANK", key, b"%d" % start, b"%d" % (stop - 1))
    changed(ctx, "z", event, key, members, stop - start)


for _name, _ends, _by, _since, _where, _condition in (
    ("rank", "start stop", b"RANK", "2.0.0", "in a range of ranks", ""),
    ("score", "min max", b"SCORE", "1.2.0", "in a range of scores", ""),
    ("lex", "min max", b"LEX", "2.8.9", "between two members", " All scores must be equal."),
):
    sorted_set_command(
        f"zremrangeby{_name} key {_ends}",
        "write",
        access="RW delete",
        since=_since,
        complexity="O(members * log(size))",
        summary=f"Removes the members {_where}, and returns how many there were.{_condition}",
    )(partial(_remove, by=_by))
