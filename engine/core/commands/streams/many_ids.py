"""Shared parts of commands with many IDs, which run in steps.

All IDs are parsed first, so that an invalid one fails the command before any change. Each step then processes some
of them like a separate command: it looks the stream up, counts its changes and records its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.replies import Reply, Steps, paged

#: Function that processes some IDs and returns a count. The IDs are given with the words from which they were parsed.
Part = Callable[[list[int], list[bytes]], int]
#: Function that processes some IDs, given in the same way, in one step or several, and returns one result per ID.
PartWithResults = Callable[[list[int], list[bytes]], Generator[None, None, list[Reply]]]


def _parsed(words: list[bytes]) -> Generator[None, None, list[int]]:
    entry_ids: list[int] = []
    for at in range(0, len(words), pace.PARSED):
        entry_ids += ids.parse_many(words[at : at + pace.PARSED])
        yield
    return entry_ids


def counted(ctx: Context, argv: list[bytes], words: list[bytes], part: Part) -> Reply:
    """Return the sum of ``part``'s results for all of ``words``, processed in steps if there are many."""
    if len(words) <= pace.MANY_IDS:
        return part(ids.parse_many(words), words)

    def work() -> Generator[None, None, Reply]:
        entry_ids, done = (yield from _parsed(words)), 0
        for at in range(0, len(words), pace.IDS):
            done += part(entry_ids[at : at + pace.IDS], words[at : at + pace.IDS])
            yield
        return done

    return ctx.in_steps(argv, work())


def listed(ctx: Context, argv: list[bytes], words: list[bytes], part: PartWithResults, groups: int) -> Reply:
    """Return ``part``'s results for all of ``words`` in order, processed in steps if there are many.

    ``groups``: number of groups in which each ID is looked up.
    """

    def work() -> Generator[None, None, Reply]:
        entry_ids, results = (yield from _parsed(words)), list[Reply]()
        for at in range(0, len(words), pace.IDS):
            results += yield from part(entry_ids[at : at + pace.IDS], words[at : at + pace.IDS])
            yield
        return paged(results)

    is_long = len(words) + groups > pace.MANY_IDS
    return ctx.in_steps(argv, work()) if is_long else Steps(argv, work()).all()
