"""Commands with very many IDs, which are done in steps: what they have in common.

All IDs are parsed before anything is done, so that a wrong one is an error with nothing done. Each step then does some
of them, as a command of its own would: it looks the stream up, counts its changes and leaves its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.replies import Reply, paged

#: Commands with more IDs are done in steps; so many are parsed at once.
MANY_IDS = 2000
_PARSED = 5000

#: Does some IDs, given with the words that they were parsed from; what comes of it.
Part = Callable[[list[int], list[bytes]], int]
PartWithResults = Callable[[list[int], list[bytes]], list[Reply]]


def _parsed(words: list[bytes]) -> Generator[None, None, list[int]]:
    entry_ids: list[int] = []
    for at in range(0, len(words), _PARSED):
        entry_ids += ids.parse_many(words[at : at + _PARSED])
        yield
    return entry_ids


def counted(ctx: Context, argv: list[bytes], words: list[bytes], step: int, part: Part) -> Reply:
    """The sum of what ``part`` returns for all of ``words``, in steps of so many if there are many."""
    if len(words) <= MANY_IDS:
        return part(ids.parse_many(words), words)

    def work() -> Generator[None, None, Reply]:
        entry_ids, done = (yield from _parsed(words)), 0
        for at in range(0, len(words), step):
            done += part(entry_ids[at : at + step], words[at : at + step])
            yield
        return done

    return ctx.in_steps(argv, work())


def listed(ctx: Context, argv: list[bytes], words: list[bytes], step: int, part: PartWithResults) -> Reply:
    """What ``part`` returns for all of ``words``, one after the other, in steps of so many if there are many."""
    if len(words) <= MANY_IDS:
        return part([ids.parse(word) for word in words], words)

    def work() -> Generator[None, None, Reply]:
        entry_ids, results = (yield from _parsed(words)), list[Reply]()
        for at in range(0, len(words), step):
            results += part(entry_ids[at : at + step], words[at : at + step])
            yield
        return paged(results)

    return ctx.in_steps(argv, work())
