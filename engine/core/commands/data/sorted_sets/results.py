"""Storing sorted sets that a command computes from other sorted sets or sets."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from engine.core.commands.data.mutations import put_result
from engine.core.keyspace.order import Block, Pair, block_of
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.replies import Reply, Steps

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Generator that computes a result in steps and returns it as ordered blocks of pairs.
Making = Generator[None, None, list[list[Pair]]]


def store(ctx: Context, argv: list[bytes], making: Making, *, is_long: bool) -> Reply:
    """Store the result of ``making`` at ``argv[1]``; return its size."""

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
        if put_result(ctx, "z", argv[0].lower(), argv[1], result):
            ctx.effect(argv[0].upper(), *argv[1:])
        return len(result)

    return ctx.in_steps(argv, work()) if is_long else Steps(argv, work()).all()


def _small(members: SortedSet) -> SortedSet:
    """Return the set with each score -0 replaced by 0, as Redis stores it in a listpack."""
    return SortedSet(((member, score or 0.0) for member, score in members.items()))
