"""Random sequences of commands get the same replies from the engine and a real redis-server (short ``make fuzz``)."""

from __future__ import annotations

from random import Random

import pytest

from tests import servers
from tests.differential import blocking
from tests.differential.grammar import FAMILIES, Grammar
from tests.differential.machine import Machine, machines, prepared, search
from tests.differential.sides import exact_trims
from tests.suite.long import FULL

COMMANDS = 100_000 if FULL else 20_000


def look_for_differences(both: list[Machine], commands: int) -> None:
    """Run sequences up to this number of commands; fail at the first difference."""
    number = 0
    while sum(machine.commands for machine in both) < commands:
        difference = search(both[number % 2], f"short/{number}", set(FAMILIES), 80)
        number += 1
        assert difference is None, f"seed short/{number - 1}\n{difference}"


@pytest.mark.redis
@pytest.mark.slow
def test_the_core_replies_as_redis(redis_process: servers.Running) -> None:
    """Random commands get the same replies from the core and from redis-server, in either protocol."""
    with machines(redis_process) as both:
        look_for_differences(both, COMMANDS)


@pytest.mark.redis
@pytest.mark.slow
def test_the_engine_replies_as_redis(redis_process: servers.Running, engine_process: servers.Running) -> None:
    """Random commands get the same replies from the engine over TCP, where pipelines of XADD take the
    vectorised path.
    """
    with machines(redis_process, engine_process) as both:
        look_for_differences(both, COMMANDS // 2)


@pytest.mark.redis
def test_waiting_clients_are_served_as_in_redis(redis_process: servers.Running) -> None:
    """The same commands wake a waiting client on both sides, with the same reply."""
    both = [blocking.BlockingMachine(redis_process, proto) for proto in (2, 3)]
    with exact_trims(redis_process):
        for number in range(max(COMMANDS // 800, 10)):
            difference = blocking.search(both[number % 2], f"short/{number}")
            assert difference is None, f"seed short/{number}\n{difference}"
    assert all(machine.wakes for machine in both)


def test_the_same_seed_gives_the_same_sequence() -> None:
    """A sequence follows from its seed alone, so that a difference can be reproduced."""
    first, second = (Grammar(Random("x"), set(FAMILIES)).sequence(200) for _ in range(2))
    assert first == second
    assert len({words[0].upper() for _, words in first}) > 20


def test_consumers_are_created_first() -> None:
    """Before an XREADGROUP its consumer is created in each of its streams."""
    steps = [(0, ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "t", ">", "0")), (1, ("XLEN", "s"))]
    made = [(0, ("XGROUP", "CREATECONSUMER", key, "g", "c")) for key in ("s", "t")]
    assert prepared(steps) == [*made, *steps]


def test_streams_are_compared_after_a_trim() -> None:
    """An XINFO STREAM after each trim compares the stream on both sides."""
    trim = (0, ("XTRIM", "s", "MAXLEN", "5"))
    assert prepared([trim]) == [trim, (0, ("XINFO", "STREAM", "s"))]
