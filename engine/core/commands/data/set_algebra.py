"""Intersections, unions and differences of sets: read, counted, or stored in another set.

For large sets, the result is computed in steps. Storing commands are logged as received, because a replay of the
earlier writes produces the same sources.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from engine.core.commands.data.long_reads import MANY
from engine.core.commands.data.mutations import put_result
from engine.core.commands.data.sets import read_set
from engine.core.commands.families import set_command
from engine.core.keyspace.elements import distinct, gathered_parts, in_parts
from engine.core.keyspace.members import Members
from engine.core.protocol.args import Args, numbered_keys
from engine.core.protocol.replies import CommandError, Pages, Reply, Set, Steps
from engine.core.table.registry import ALL_KEYS, Keys
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Maximum number of sets for which a union finds duplicates by looking each member up in the preceding sets.
_FEW = 4
#: Function that yields the members of an intersection, union or difference in lists, each member once. A missing key is
#: an empty set.
_Combine = Callable[[list[Members]], Iterator[list[bytes]]]


def _parts(members: Members, others: int = 0) -> Iterator[list[bytes]]:
    return in_parts(iter(members.shown() if len(members) <= MANY else members), others)


def _common(sets: list[Members]) -> Iterator[list[bytes]]:
    """Yield the intersection of the sets."""
    smallest, *others = sorted(distinct(sets), key=len)
    for part in _parts(smallest, len(others)):
        for other in others:
            part = [member for member in part if member in other]
        yield part


def _all(sets: list[Members]) -> Iterator[list[bytes]]:
    """Yield the union of the sets."""
    sets = distinct(sets)
    if len(sets) <= _FEW:
        # This needs no table of all members, which would block the server when it grows and when it is freed.
        for number, members in enumerate(sets):
            for part in _parts(members):
                for other in sets[:number]:
                    part = [member for member in part if member not in other]
                yield part
        return
    seen: dict[bytes, None] = {}
    for members in sets:
        for part in _parts(members):
            new = [member for member in part if member not in seen]
            seen.update(dict.fromkeys(new))
            yield new


def _alone(sets: list[Members]) -> Iterator[list[bytes]]:
    """Yield the members of the first set that are in no other set."""
    first, *others = sets[0], *distinct(filter(None, sets[1:]))
    for part in _parts(first, len(others)):
        for other in others:
            part = [member for member in part if member not in other]
        yield part


def _read(ctx: Context, argv: list[bytes], *, combine: _Combine) -> Reply:
    sets = [read_set(ctx, key) for key in argv[1:]]
    if sum(map(len, sets)) <= MANY:
        return Set(chain.from_iterable(combine(sets)))

    def work() -> Generator[None, None, Reply]:
        parts = yield from gathered_parts(combine(sets))
        parts.reverse()
        return Pages(Set, sum(map(len, parts)), (parts.pop() for _ in range(len(parts))))

    return ctx.in_steps(argv, work())


def _store(ctx: Context, argv: list[bytes], *, combine: _Combine) -> Reply:
    sets = [read_set(ctx, key) for key in argv[2:]]
    limits = ctx.set_limits
    result = Members()

    def stored() -> Iterator[None]:
        for part in combine(sets):
            for member in part:
                result.put(member, limits)
            yield

    def work() -> Generator[None, None, Reply]:
        yield from gathered_parts(stored())
        _replace(ctx, argv, result)
        return len(result)

    if sum(map(len, sets)) <= MANY:
        return Steps(argv, work()).all()
    return ctx.in_steps(argv, work())


def _replace(ctx: Context, argv: list[bytes], result: Members) -> None:
    if put_result(ctx, "s", argv[0].lower(), argv[1], result):
        ctx.effect(argv[0].upper(), *argv[1:])


for _name, _combine, _result, _complexity in (
    ("inter", _common, "the members common to all sets", "O(keys * smallest size)"),
    ("union", _all, "the members that are in at least one of the sets", "O(sum of all sizes)"),
    ("diff", _alone, "the members of the first set that are in none of the others", "O(keys * first size)"),
):
    set_command(
        f"s{_name} key [key ...]", "readonly", keys=ALL_KEYS, summary=f"Returns {_result}.", complexity=_complexity
    )(partial(_read, combine=_combine))
    set_command(
        f"s{_name}store destination key [key ...]",
        "write denyoom",
        keys=ALL_KEYS,
        access="OW update, RO access",
        summary=f"Stores {_result}, and returns how many there are.",
        complexity=_complexity,
    )(partial(_store, combine=_combine))


@set_command(
    "sintercard numkeys key [key ...] [LIMIT limit]",
    "readonly movablekeys",
    keys=Keys(count_at=1),
    since="7.0.0",
    complexity="O(keys * smallest size)",
)
def sintercard(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of members common to all sets, up to a limit."""
    args, limit = Args(argv), 0
    keys = numbered_keys(args, data.NUMKEYS, data.NUMKEYS_TOO_MANY)
    while len(args):
        if not args.option(b"LIMIT"):
            raise CommandError(general.SYNTAX)
        limit = args.take_int(data.LIMIT_NEGATIVE)
        if limit < 0:
            raise CommandError(data.LIMIT_NEGATIVE)
    sets = [read_set(ctx, key) for key in keys]

    def counted() -> Iterator[int]:
        count = 0
        for part in _common(sets):
            count += len(part)
            yield count
            if limit and count >= limit:
                return

    def work() -> Generator[None, None, Reply]:
        counts = yield from gathered_parts(counted())
        count = counts[-1] if counts else 0
        return min(count, limit) if limit else count

    return Steps(argv, work()).all() if min(map(len, sets)) <= MANY else ctx.in_steps(argv, work())
