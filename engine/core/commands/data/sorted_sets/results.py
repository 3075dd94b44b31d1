"""Storing sorted sets that a command computes from other sorted sets or sets.

A long result is computed in steps, from copies that show its sources at one moment. If a source changes before the
result is stored, the log receives the result's members and scores instead of the command.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from engine.core.commands.data.mutations import put_result
from engine.core.formats.export import encode
from engine.core.keyspace.elements import Elements, Reading
from engine.core.keyspace.order import Block, Pair, block_of
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.replies import Reply, Steps
from engine.text import doubles

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Generator that computes a result in steps and returns it as ordered blocks of pairs.
Making = Generator[None, None, list[list[Pair]]]
#: Members per command in the log.
_LOGGED = 500


def store(
    ctx: Context,
    argv: list[bytes],
    keys: Sequence[bytes],
    sources: Sequence[Elements[Any]],
    making: Making,
    *,
    is_long: bool,
) -> Reply:
    """Store the result of ``making`` at ``argv[1]``; return its size.

    ``sources`` are the values at ``keys`` from which the result is made.
    """
    db = ctx.db
    reading = Reading(sources)

    def is_unchanged() -> bool:
        """Return whether the sources are unchanged since the command started."""
        if reading.is_disturbed:
            return False
        values = map(db.get, keys)
        return all(value is (source or None) for value, source in zip(values, sources, strict=True))

    def work() -> Generator[None, None, Reply]:
        blocks = yield from making
        result, ordered = SortedSet(big=True), list[Block]()
        for block in blocks:
            scores, members = block_of(block)
            dict.update(result, zip(members, scores, strict=True))
            ordered.append((scores, members))
            yield
        limits = ctx.sorted_set_limits
        if len(result) <= limits.entries and all(len(member) <= limits.length for member in result):
            result = _small(result)
        else:
            result.put_in_order(ordered)
        logged: list[bytes] | None = None
        if not is_unchanged():
            logged, key = [], argv[1]
            for block in blocks:
                for at in range(0, len(block), _LOGGED):
                    pairs = block[at : at + _LOGGED]
                    words = chain.from_iterable((doubles.text(score), member) for score, member in pairs)
                    logged.append(encode([b"ZADD", key, *words]))
                yield
        _replace(ctx, argv, result, logged)
        return len(result)

    return ctx.in_steps(argv, work()) if is_long else Steps(argv, work()).all()


def _small(members: SortedSet) -> SortedSet:
    """Return the set with each score -0 replaced by 0, as Redis stores it in a listpack."""
    return SortedSet(((member, score or 0.0) for member, score in members.items()))


def _replace(ctx: Context, argv: list[bytes], result: SortedSet, logged: list[bytes] | None) -> None:
    """Store the result at the key. Log the encoded commands ``logged``, or the command itself if ``logged`` is None."""
    key, db = argv[1], ctx.db
    if not put_result(ctx, "z", argv[0].lower(), key, result):
        return
    if logged is None:
        ctx.effect(argv[0].upper(), *argv[1:])
        return
    ctx.effect(b"DEL", key)
    if ctx.changes.recording:
        ctx.changes.effects += [(db.index, piece) for piece in logged]
