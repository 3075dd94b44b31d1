"""Long replies made from one hash, set or sorted set, in steps and pages; they show the value at one moment."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from engine.core.keyspace.elements import Elements, gathered
from engine.core.protocol.replies import Pages, Reply

if TYPE_CHECKING:
    from engine.core.environment.context import Context

E = TypeVar("E", bound=Elements[Any])

#: Maximum number of words in a reply that is made at once.
MANY = 5000
#: Number of look-ups that take as long as a random draw, less one.
PER_DRAW = 2


def in_pages(
    ctx: Context,
    argv: list[bytes],
    kind: type[list[Reply]],
    elements: E,
    words: Callable[[E], Iterator[Reply]],
    others: int = 0,
) -> Reply:
    """Return the words made from ``elements`` as a long list of this kind.

    ``others`` is the number of look-ups that a word needs in addition to one.
    """
    gathering = gathered(elements, words, others)

    def work() -> Generator[None, None, Reply]:
        parts = yield from gathering
        # Each part is freed when it is sent, because freeing all of them at once would block the server.
        return Pages(kind, sum(map(len, parts)), (parts.pop() for _ in range(len(parts))))

    return ctx.in_steps(argv, work())


def number_of_draws(count: int, size: int) -> int:
    """Return the number of elements that a command draws from ``size`` elements; a negative count allows repetition."""
    return min(count, size) if count >= 0 else -count
