"""Replaying the log of any commands on an empty core gives the same data."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from engine.core.streams.stream import Stream
from tests.differential.grammar import FAMILIES, Grammar, Step
from tests.differential.shrink import shrink
from tests.harness.core import CoreServer
from tests.harness.replay import replayed, state
from tests.suite.long import FULL

SEQUENCES = 150 if FULL else 40


def producers(server_core: Any) -> dict[tuple[int, bytes], Any]:
    """Return the state of idempotent producers in streams."""
    return {
        (db.index, key): (value.producers.duration, value.producers.maxsize, value.producers.by_producer)
        for db in server_core.databases
        for key, value, _ in db.items()
        if isinstance(value, Stream) and value.producers is not None and value.producers.by_producer
    }


def without_unlogged(found: Any) -> Any:
    """Return the state without the delivery counts of history reads, which no log contains, not even Redis's."""
    for keys in found.values():
        for kind, value, _ in keys.values():
            if kind == b"stream":
                for group in value["groups"].values():
                    group["pending"] = [(entry_id, owner) for entry_id, owner, _, _ in group["pending"]]
                    group["consumers"] = sorted({owner for _, owner in group["pending"]} - {b""})
    return found


def reads_history(words: tuple[str, ...]) -> bool:
    return words[0].upper() == "XREADGROUP" and any(word != ">" for word in words[-(words_after_streams(words) // 2) :])


def words_after_streams(words: tuple[str, ...]) -> int:
    upper = [word.upper() for word in words]
    return len(words) - upper.index("STREAMS") - 1 if "STREAMS" in upper else 2


def failure(steps: list[Step], passing: int) -> str | None:
    """Return how the data differs after a replay of these steps' effects, or None if it does not.

    After each step this number of seconds passes.
    """
    server = CoreServer(2)
    clients = [server.main, server.client()]
    history = False
    for client, words in steps:
        clients[client].run(*(word.encode() for word in words))
        history = history or reads_history(words)
        server.clock.now_us += passing * 1_000_000
    try:
        again = replayed(server.effects, server.clock.now_us)
    except AssertionError as error:
        return f"replaying failed: {error}"
    server.core.changes.set_time(server.clock.now_us)
    expected, found = state(server.core), state(again)
    if history:
        expected, found = without_unlogged(expected), without_unlogged(found)
    if expected != found:
        return f"state {expected}\nreplayed {found}"
    if producers(server.core) != producers(again):
        return f"producers {producers(server.core)}\nreplayed {producers(again)}"
    return None


@pytest.mark.parametrize(
    ("families", "passing"),
    [
        (("stream", "group"), 1),
        (("stream", "group", "newer"), 1),
        ((*FAMILIES, "newer"), 1),
        # Keys expire between the commands.
        (("string", "hash", "any_key", "transaction"), 30_000),
    ],
)
def test_effects_restore_the_data(families: tuple[str, ...], passing: int) -> None:
    """The effects of any commands give an empty core the same entries, groups, pending lists and producers."""
    for number in range(SEQUENCES):
        steps = Grammar(Random(f"replay/{families}/{number}"), set(families)).sequence(60)
        found = failure(steps, passing)
        if found is not None:
            steps, found = shrink(steps, found, partial(failure, passing=passing))
            pytest.fail("\n".join([f"sequence {number}", *(f"  {client}> {words}" for client, words in steps), found]))
