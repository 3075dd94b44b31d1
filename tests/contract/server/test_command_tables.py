"""COMMAND compared with Redis 8.6."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from engine.core.table.unsupported import family_of
from scripts.peers import PEERS_DIR, Peers
from tests import servers
from tests.differential import extremes
from tests.harness.clients import SocketClient

PEER = "redis-8.6"
#: Flags about scripts, which the engine does not run.
OF_SCRIPTS = {"noscript", "allow_busy"}
#: Commands that Redis 8.6 does not have.
NEWER = {"xnack"}

Table = dict[str, dict[str, Any]]


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(item) for item in value] if isinstance(value, list) else value


def _rows(rows: list[Any], into: Table) -> Table:
    for name, arity, flags, first, last, step, categories, _tips, _specs, subcommands in rows:
        into[_text(name).lower()] = {
            "arity": arity,
            "flags": set(_text(flags)) - OF_SCRIPTS,
            "positions": (first, last, step),
            "categories": set(_text(categories)),
        }
        _rows(subcommands, into)
    return into


def _table(running: servers.Running) -> Table:
    with SocketClient(running.connect(), 2, None) as client:
        return _rows(client.run("COMMAND"), {})


@pytest.fixture(scope="module")
def peer() -> Iterator[servers.Running]:
    """Yield a Redis 8.6."""
    peers = Peers(PEERS_DIR)
    if PEER not in peers.here():
        pytest.skip(f"{PEER} is not unpacked: scripts/peers get {PEER}")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("REDIS_SERVER", str(peers.server(PEER)))
            running = stack.enter_context(servers.redis())
        yield running


def test_the_table_is_that_of_redis_8_6(peer: servers.Running, engine_process: servers.Running) -> None:
    """Arity, flags, key positions and ACL categories are equal."""
    expected, found = _table(peer), _table(engine_process)
    common = set(expected) & set(found)
    assert len(common) > 150
    assert {name: found[name] for name in common} == {name: expected[name] for name in common}


def test_the_commands_of_the_reported_version_exist(peer: servers.Running, engine_process: servers.Running) -> None:
    """The engine reports the version of Redis that it is compared with, and has all its commands or lists them as
    unsupported.
    """
    reported = []
    for running in (peer, engine_process):
        with SocketClient(running.connect(), 2, None) as client:
            info = client.run("INFO server").decode()
        reported.append(next(line for line in info.splitlines() if line.startswith("redis_version:")))
    assert reported[0] == reported[1]
    expected, found = _table(peer), _table(engine_process)
    missing = {name for name in set(expected) - set(found) if not name.startswith("cluster|")}
    unnamed = {name for name in missing if family_of(name.encode()) is family_of(name.split("|")[0].encode()) is None}
    assert not unnamed
    assert {name for name in set(found) - set(expected) if not name.startswith("ps.")} == NEWER


def test_extreme_numbers_get_the_same_replies(peer: servers.Running, engine_process: servers.Running) -> None:
    """Every numeric argument of every data command accepts or rejects extreme numbers as Redis 8.6 does."""
    with closing(extremes.Side(engine_process.port)) as engine, closing(extremes.Side(peer.port)) as real:
        assert list(extremes.differences(engine, real)) == []
