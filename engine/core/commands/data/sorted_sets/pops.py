"""Popping members from either end of sorted sets, immediately or blocking, as used by schedules and queues.

The log receives each pop as a ZPOPMIN or ZPOPMAX with a count, never as a blocking command.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from engine.core.commands.data.lists import parse_pop, timeout_in_ms
from engine.core.commands.data.mutations import changed
from engine.core.commands.data.sorted_sets.ranges import pages_of
from engine.core.commands.data.sorted_sets.values import AT_ONCE, shown, sorted_set_at
from engine.core.commands.families import sorted_set_command
from engine.core.keyspace.order import Pair
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Reply, holding
from engine.core.table.registry import Handler, Keys
from engine.text.messages import general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: ZMPOP's word for an end -> whether this end has the highest scores.
_ENDS = {b"MIN": False, b"MAX": True}
_EVENTS = (b"zpopmin", b"zpopmax")


def _pop(ctx: Context, key: bytes, members: SortedSet, count: int, *, upper: bool) -> list[Pair]:
    """Remove up to ``count`` members from one end; return them in the order of removal."""
    size = len(members)
    count = min(count, size)
    pairs = members.cut(size - count, size) if upper else members.cut(0, count)
    if upper:
        pairs.reverse()
    event = _EVENTS[upper]
    if ctx.changes.recording:
        ctx.effect(event.upper(), key, b"%d" % count)
    changed(ctx, "z", event, key, members, count)
    return pairs


def _pop_many(
    ctx: Context, key: bytes, members: SortedSet, count: int, *, upper: bool, in_pairs: bool
) -> Generator[None, None, Reply]:
    """Pop members in steps and return them as a reply."""
    parts = []
    for done in range(0, min(count, len(members)), AT_ONCE):
        parts.append(_pop(ctx, key, members, min(count - done, AT_ONCE), upper=upper))
        yield
    return pages_of(parts, with_scores=True, in_pairs=in_pairs)


def _popped(
    ctx: Context, argv: list[bytes], key: bytes, members: SortedSet, count: int, *, upper: bool, in_pairs: bool
) -> Reply:
    """Pop members and return them with their scores; in steps if there are many."""
    if count <= AT_ONCE:
        return shown(_pop(ctx, key, members, count, upper=upper), with_scores=True, in_pairs=in_pairs)
    return ctx.in_steps(argv, _pop_many(ctx, key, members, count, upper=upper, in_pairs=in_pairs))


def _pop_command(*, upper: bool) -> Handler:
    def pop(ctx: Context, argv: list[bytes]) -> Reply:
        key, count, in_pairs = argv[1], 1, False
        if len(argv) > 2:
            if len(argv) > 3:
                raise CommandError(general.SYNTAX)
            count = parse_int(argv[2], general.NOT_POSITIVE)
            if count < 0:
                raise CommandError(general.NOT_POSITIVE)
            # RESP3 returns pairs if a count was given.
            in_pairs = ctx.resp3
        members = ctx.db.typed(key, SortedSet)
        if members is None or not count:
            return []
        return _popped(ctx, argv, key, members, count, upper=upper, in_pairs=in_pairs)

    return pop


for _name, _upper, _which in (("zpopmin", False, "lowest"), ("zpopmax", True, "highest")):
    sorted_set_command(
        f"{_name} key [count]",
        "write fast",
        access="RW access delete",
        since="5.0.0",
        complexity="O(count * log(size))",
        summary=f"Removes and returns the members with the {_which} scores of a sorted set.",
    )(_pop_command(upper=_upper))


# -- the first non-empty sorted set -----------------------------------------------------------------------------------


def _first(ctx: Context, keys: list[bytes]) -> tuple[bytes, SortedSet] | None:
    """Return the first key with a sorted set, and the sorted set; None if all keys are missing."""
    for key in keys:
        members = sorted_set_at(ctx, key)
        if members:
            return key, members
    return None


def _blocking_pop(ctx: Context, argv: list[bytes], *, upper: bool) -> Reply:
    timeout = timeout_in_ms(argv[-1], ctx.now)
    keys = argv[1:-1]
    found = _first(ctx, keys)
    if found is None:
        return ctx.block(argv, keys, timeout, type_name=b"zset")
    key, members = found
    [(score, member)] = _pop(ctx, key, members, 1, upper=upper)
    return [key, member, score]


for _name, _upper, _which in (("bzpopmin", False, "lowest"), ("bzpopmax", True, "highest")):
    sorted_set_command(
        f"{_name} key [key ...] timeout",
        "write blocking fast",
        keys=Keys(1, -2, 1),
        access="RW access delete",
        since="5.0.0",
        complexity="O(keys + log(size))",
        summary=f"Removes and returns the member with the {_which} score of the first non-empty sorted set; "
        "waits while all are empty.",
    )(partial(_blocking_pop, upper=_upper))


def _is_upper(word: bytes) -> bool:
    upper = _ENDS.get(word.upper())
    if upper is None:
        raise CommandError(general.SYNTAX)
    return upper


def _pop_first(ctx: Context, argv: list[bytes], keys: list[bytes], *, upper: bool, count: int) -> Reply | None:
    """Pop from the first existing sorted set; return its key and the members; None if all keys are missing."""
    found = _first(ctx, keys)
    if found is None:
        return None
    key, members = found
    if count <= AT_ONCE:
        return [key, _popped(ctx, argv, key, members, count, upper=upper, in_pairs=True)]

    def work() -> Generator[None, None, Reply]:
        pairs = yield from _pop_many(ctx, key, members, count, upper=upper, in_pairs=True)
        return holding([key, pairs])

    return ctx.in_steps(argv, work())


@sorted_set_command(
    "zmpop numkeys key [key ...] <MIN | MAX> [COUNT count]",
    "write movablekeys",
    keys=Keys(count_at=1),
    access="RW access delete",
    since="7.0.0",
    complexity="O(keys + count * log(size))",
)
def zmpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns members with the lowest or highest scores of the first sorted set that is not empty."""
    keys, upper, count = parse_pop(Args(argv), _is_upper)
    reply = _pop_first(ctx, argv, keys, upper=upper, count=count)
    return NIL_ARRAY if reply is None else reply


@sorted_set_command(
    "bzmpop timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
    "write blocking movablekeys",
    keys=Keys(count_at=2),
    access="RW access delete",
    since="7.0.0",
    complexity="O(keys + count * log(size))",
)
def bzmpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns members as ZMPOP does; waits while all sorted sets are empty."""
    keys, upper, count = parse_pop(Args(argv, 2), _is_upper)
    timeout = timeout_in_ms(argv[1], ctx.now)
    reply = _pop_first(ctx, argv, keys, upper=upper, count=count)
    return ctx.block(argv, keys, timeout, type_name=b"zset") if reply is None else reply
