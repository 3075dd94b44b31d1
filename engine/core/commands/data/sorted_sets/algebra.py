"""Intersections, unions and differences of sorted sets and sets: read, counted, or stored.

Members of sets have the score 1. Large sources are combined in steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from engine.core.commands.data.sorted_sets.ranges import pages_of
from engine.core.commands.data.sorted_sets.results import store
from engine.core.commands.data.sorted_sets.values import MANY, shown
from engine.core.commands.families import sorted_set_command
from engine.core.keyspace.elements import Elements, distinct, gathered_parts
from engine.core.keyspace.members import Members
from engine.core.keyspace.order import Pair
from engine.core.keyspace.sorted_set import SortedSet, in_order
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Reply, Steps
from engine.core.table.registry import Keys
from engine.text import doubles
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Number of lookups per step. An element takes one lookup per source.
_LOOKUPS_PER_STEP = 2000
#: A source's members with their scores.
_Scores = Mapping[bytes, float]
_Aggregate = Callable[[float, float], float]


def _sum(first: float, second: float) -> float:
    result = first + second
    # As in Redis, the sum of opposite infinities is 0.
    return 0.0 if math.isnan(result) else result


def _least(first: float, second: float) -> float:
    # A NaN in ``second`` is ignored.
    return min(first, second)


def _greatest(first: float, second: float) -> float:
    return max(first, second)


_AGGREGATES: dict[bytes, _Aggregate] = {b"SUM": _sum, b"MIN": _least, b"MAX": _greatest}


def _weighted(weight: float, score: float) -> float:
    result = weight * score
    return 0.0 if math.isnan(result) else result


# -- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    """Sources with their weights, and options. A missing key has an empty source."""

    sources: list[Elements[Any]]
    weights: list[float]
    aggregate: _Aggregate
    with_scores: bool
    limit: int

    @property
    def size(self) -> int:
        """Total number of members of the sources."""
        return sum(map(len, self.sources))


def _source(ctx: Context, key: bytes) -> Elements[Any]:
    value: Any = ctx.db.read(key)
    if value is None:
        return SortedSet()
    if not isinstance(value, SortedSet | Members):
        raise CommandError(general.WRONG_TYPE)
    return value


def _parse(
    ctx: Context, argv: list[bytes], at: int, *, weighs: bool, reads: bool = False, counts: bool = False
) -> _Request:
    """Parse numkeys and keys from ``at`` on, and options: WEIGHTS and AGGREGATE if ``weighs``, WITHSCORES if
    ``reads``, LIMIT if ``counts``.
    """
    args = Args(argv, at)
    numkeys = args.take_int()
    if numkeys < 1:
        raise CommandError(data.no_input_keys(argv[0].lower()))
    if numkeys > len(args):
        raise CommandError(general.SYNTAX)
    keys = argv[args.pos : args.pos + numkeys]
    args.pos += numkeys
    sources = [_source(ctx, key) for key in keys]
    weights, with_scores, limit = [1.0] * numkeys, False, 0
    aggregate: _Aggregate = _sum
    while len(args):
        if weighs and len(args) > numkeys and args.flag(b"WEIGHTS"):
            weights = [_weight(args.take()) for _ in keys]
        elif weighs and args.option(b"AGGREGATE"):
            name = args.take().upper()
            if name not in _AGGREGATES:
                raise CommandError(general.SYNTAX)
            aggregate = _AGGREGATES[name]
        elif reads and args.flag(b"WITHSCORES"):
            with_scores = True
        elif counts and args.option(b"LIMIT"):
            limit = args.take_int(data.LIMIT_NEGATIVE)
            if limit < 0:
                raise CommandError(data.LIMIT_NEGATIVE)
        else:
            raise CommandError(general.SYNTAX)
    return _Request(sources, weights, aggregate, with_scores, limit)


def _weight(word: bytes) -> float:
    weight = doubles.parse(word)
    if weight is None:
        raise CommandError(data.WEIGHT)
    return weight


# -- results ----------------------------------------------------------------------------------------------------------

#: Function that computes the members and scores of a result in steps.
_Combine = Callable[[_Request, Sequence[_Scores]], Generator[None, None, dict[bytes, float]]]


def _smallest_first(request: _Request, scores: Sequence[_Scores]) -> list[tuple[_Scores, float]]:
    """Return the sources with their weights, the smallest source first: Redis adds scores in this order."""
    return sorted(zip(scores, request.weights, strict=True), key=lambda source: len(source[0]))


def _in_steps(scores: _Scores, others: int = 0) -> Iterator[list[tuple[bytes, float]]]:
    """Yield lists of members with their scores. ``others`` is the number of lookups that the caller makes per member:
    the more lookups, the shorter the lists.
    """
    items = iter(scores.items())
    size = max(_LOOKUPS_PER_STEP // (others + 1), 1)
    while some := list(islice(items, size)):
        yield some


def _together(request: _Request, scores: Sequence[_Scores]) -> Generator[None, None, dict[bytes, float]]:
    result: dict[bytes, float] = {}
    aggregate = request.aggregate
    for source, weight in _smallest_first(request, scores):
        for some in _in_steps(source):
            for member, score in some:
                value = _weighted(weight, score)
                result[member] = aggregate(result[member], value) if member in result else value
            yield
    return result


def _common(request: _Request, scores: Sequence[_Scores]) -> Generator[None, None, dict[bytes, float]]:
    result: dict[bytes, float] = {}
    aggregate = request.aggregate
    (smallest, weight), *others = _smallest_first(request, scores)
    for some in _in_steps(smallest, len(others)):
        for member, score in some:
            value = _weighted(weight, score)
            for other, its_weight in others:
                if member not in other:
                    break
                # As in Redis, 0 times infinity remains NaN here, unlike in ``_weighted``.
                value = aggregate(value, its_weight * other[member])
            else:
                result[member] = value
        yield
    return result


def _alone(request: _Request, scores: Sequence[_Scores]) -> Generator[None, None, dict[bytes, float]]:
    result: dict[bytes, float] = {}
    first, *others = scores[0], *distinct(filter(None, scores[1:]))
    for some in _in_steps(first, len(others)):
        result.update(pair for pair in some if not any(pair[0] in other for other in others))
        yield
    return result


def _with_scores(source: Elements[Any]) -> _Scores:
    """Return the members of a source with their scores. The result is valid until the source changes."""
    return source if isinstance(source, SortedSet) else dict.fromkeys(source, 1.0)


def _blocks(request: _Request, combine: _Combine) -> Generator[None, None, list[list[Pair]]]:
    """Compute the result in steps, as ordered blocks of pairs."""
    return (yield from in_order((yield from combine(request, list(map(_with_scores, request.sources))))))


# -- commands ---------------------------------------------------------------------------------------------------------


def _read(ctx: Context, argv: list[bytes], *, combine: _Combine, weighs: bool) -> Reply:
    request = _parse(ctx, argv, 1, weighs=weighs, reads=True)
    making, in_pairs, with_scores = _blocks(request, combine), ctx.resp3, request.with_scores

    def work() -> Generator[None, None, Reply]:
        blocks = yield from making
        if sum(map(len, blocks)) <= MANY:
            return shown(chain.from_iterable(blocks), with_scores=with_scores, in_pairs=in_pairs)
        return pages_of(blocks, with_scores=with_scores, in_pairs=in_pairs)

    return ctx.in_steps(argv, work()) if request.size > MANY else Steps(argv, work()).all()


def _store(ctx: Context, argv: list[bytes], *, combine: _Combine, weighs: bool) -> Reply:
    request = _parse(ctx, argv, 2, weighs=weighs)
    return store(ctx, argv, _blocks(request, combine), is_long=request.size > MANY)


_WEIGHING = " [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]"
for _name, _combine, _options, _since, _result, _complexity in (
    (
        "union",
        _together,
        _WEIGHING,
        "2.0.0",
        "the members that are in at least one of the sorted sets",
        "O(sum of all sizes)",
    ),
    (
        "inter",
        _common,
        _WEIGHING,
        "2.0.0",
        "the members common to all sorted sets",
        "O(keys * smallest size)",
    ),
    (
        "diff",
        _alone,
        "",
        "6.2.0",
        "the members of the first sorted set that are in none of the others",
        "O(keys * first size)",
    ),
):
    sorted_set_command(
        f"z{_name} numkeys key [key ...]{_options} [WITHSCORES]",
        "readonly movablekeys",
        keys=Keys(count_at=1),
        since="6.2.0",
        complexity=f"{_complexity} + O(result * log(result))",
        summary=f"Returns {_result}.",
    )(partial(_read, combine=_combine, weighs=bool(_options)))
    sorted_set_command(
        f"z{_name}store destination numkeys key [key ...]{_options}",
        "write denyoom movablekeys",
        keys=Keys(1, 1, 1, count_at=2),
        access="OW update, RO access",
        since=_since,
        complexity=f"{_complexity} + O(result * log(result))",
        summary=f"Stores {_result}, and returns how many there are.",
    )(partial(_store, combine=_combine, weighs=bool(_options)))


@sorted_set_command(
    "zintercard numkeys key [key ...] [LIMIT limit]",
    "readonly movablekeys",
    keys=Keys(count_at=1),
    since="7.0.0",
    complexity="O(keys * smallest size)",
)
def zintercard(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of members common to all sorted sets, up to a limit."""
    request = _parse(ctx, argv, 1, weighs=False, counts=True)
    smallest, *others = sorted(distinct(request.sources), key=len)
    limit = request.limit

    def counted() -> Iterator[int]:
        count, names = 0, iter(smallest)
        while some := list(islice(names, max(_LOOKUPS_PER_STEP // (len(others) + 1), 1))):
            for other in others:
                some = [member for member in some if member in other]
            count += len(some)
            yield count
            if limit and count >= limit:
                return

    def work() -> Generator[None, None, Reply]:
        counts = yield from gathered_parts(counted())
        count = counts[-1] if counts else 0
        return min(count, limit) if limit else count

    return Steps(argv, work()).all() if len(smallest) <= MANY else ctx.in_steps(argv, work())
