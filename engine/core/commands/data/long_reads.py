"""Long replies made from one hash, set or sorted set, in steps and pages."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from engine.core.keyspace.elements import gathered
from engine.core.protocol.replies import Pages, Reply

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Maximum number of words in a reply that is made at once.
MANY = 5000
#: Number of look-ups that take as long as a random draw, less one.
PER_DRAW = 2


def in_pages(
    ctx: Context,
    argv: list[bytes],
    kind: type[list[Reply]],
    words: Iterator[Reply],
    others: int = 0,
) -> Reply:
    """Return the words, which are made from a value, as a long list of this kind.

    ``others`` is the number of look-ups that a word needs in addition to one.
    """

    def work() -> Generator[None, None, Reply]:
        parts = yield from gathered(words, others)
        # Each part is freed when it is sent, because freeing all of them at once would block the server.
        return Pages(kind, sum(map(len, parts)), (parts.pop() for _ in range(len(parts))))

    return ctx.in_steps(argv, work())


def number_of_draws(count: int, size: int) -> int:
    """Return the number of elements that a command draws from ``size`` elements; a negative count allows repetition."""
    return min(count, size) if count >= 0 else -count
