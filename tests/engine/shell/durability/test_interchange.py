"""Append-only directories that the engine and a real redis-server load from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests import servers
from tests.differential.grammar import FAMILIES, Grammar
from tests.engine.core.formats import real_files
from tests.engine.shell.durability.test_every_type_changes_hands import as_commands, without_times
from tests.faults.engines import Engine
from tests.servers.connection import Connection
from tests.suite import tools
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.redis


@pytest.fixture(autouse=True)
def _needs_redis() -> None:
    tools.needed("redis-server")


@contextmanager
def redis_on(directory: Path, *flags: str) -> Iterator[Callable[..., Any]]:
    """Yield a function that runs commands on a redis-server whose append-only file is in ``directory``."""
    flags = ("--dir", str(directory), "--appendonly", "yes", "--aof-use-rdb-preamble", "no", *flags)
    with servers.redis(*flags) as running, Connection(running) as client:
        yield client.run


def visible(ask: Any) -> dict[bytes, Any]:
    """Return what commands can restore of all keys, except times."""
    return without_times(as_commands(real_files.view(ask)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stamps", ["no", "yes"])
def test_the_engine_loads_the_directory_of_redis(tmp_path, seed, stamps):
    """The engine loads all data from the directory of a Redis that has run random commands, and Redis loads it back.

    The base consists of commands or, with timestamps in the log, is an RDB file.
    """
    steps = [step for step in Grammar(Random(seed), set(FAMILIES)).sequence(300) if step[1][0].upper() != "XNACK"]
    flags = ("--aof-timestamp-enabled", stamps, "--aof-use-rdb-preamble", stamps, "--stream-node-max-entries", "5")
    with redis_on(tmp_path, *flags) as ask:
        for number, (_, words) in enumerate(steps):
            ask(*words)
            if number == 150:
                ask("DISCARD")
                ask("BGREWRITEAOF")
                wait_for(lambda: b"aof_rewrite_in_progress:0" in ask("INFO", "persistence"), "the rewrite")
        ask("DISCARD")
    # Redis 7.0 logs a read without the group's new entries-read, so compare with the values that Redis itself loads.
    with redis_on(tmp_path) as ask:
        wanted = visible(ask)
        now_us = int(ask("TIME")[0]) * 10**6
    engine = Engine(tmp_path, now_us=now_us + 10**6)
    assert visible(engine.ask) == wanted
    engine.run("XADD another * ours v")
    engine.die()
    with redis_on(tmp_path) as ask:
        assert ask("XRANGE", "another", "-", "+")[0][1] == [b"ours", b"v"]
