"""Replays of dead letters within a slot and between slots, with and without scripts: no letter is
lost or duplicated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from pystreams.streams import dead_letters, inventory
from pystreams.streams.dead_letters import Letter, Which
from spark_streams.config import options
from spark_streams.errors import PystreamsError
from streamclient.capabilities import Capabilities
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.link import Command, Link
from streamwire.slots import slot_of
from streamwire.stream_id import LAST, StreamId
from tests import servers
from tests.servers import topologies

LETTERS = 3
ORIGIN = {"_original_stream": "orders", "_original_id": "1-0", "_original_deliveries": 1, "_reason": "r"}
assert slot_of(b"failed") != slot_of(b"orders")


class KilledError(BaseException):
    """The simulated end of the process."""


@dataclass
class Site:
    """A server or a cluster, with a client for it. `nodes` has a client for each server."""

    url: str
    client: Any
    nodes: list[redis.Redis]

    def connection(self, patience_ms: int = 15_000) -> Connection:
        """Return a connection that waits this long for a server that refuses a command for now."""
        address = options.server({"url": self.url, "retryTimeoutMs": str(patience_ms)})
        assert isinstance(address, Address)
        return Connection(address)

    def empty(self) -> None:
        for node in self.nodes:
            node.flushall()

    def write(self, count: int = LETTERS) -> None:
        """Delete all keys and write this number of letters."""
        self.empty()
        for n in range(count):
            self.client.xadd("failed", {**ORIGIN, "n": n})

    def keys(self) -> set[bytes]:
        """Return the keys of all servers."""
        found: list[Any] = [node.keys() for node in self.nodes]
        return {key for each in found for key in each}

    def numbers(self, stream: str) -> list[int]:
        """Return the numbers of the stream's entries, sorted."""
        return sorted(int(fields[b"n"]) for _, fields in self.client.xrange(stream))


def find(connection: Connection) -> list[Letter]:
    upto = inventory.need(connection, b"failed").last_id
    return [letter for page in dead_letters.find(connection, b"failed", Which(), upto) for letter in page]


def put_back(connection: Connection, letters: Sequence[Letter] | None = None) -> int:
    some = find(connection) if letters is None else letters
    return dead_letters.put_back(connection, b"failed", some, None)


@pytest.fixture(
    params=[pytest.param("redis", marks=pytest.mark.redis), "engine", pytest.param("cluster", marks=pytest.mark.redis)]
)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A single server, or a cluster on which the two streams are in different slots."""
    if request.param == "cluster":
        cluster: topologies.Cluster = request.getfixturevalue("cluster")
        nodes = [redis.Redis(port=node.port, protocol=2) for node in cluster.nodes]
        made = Site(cluster.url, cluster.client(), nodes)
    else:
        server: servers.Running = request.getfixturevalue(f"{request.param}_process")
        client = redis.Redis(host=server.host, port=server.port, protocol=2)
        made = Site(server.url, client, [client])
    try:
        yield made
    finally:
        made.empty()
        for each in (made.client, *made.nodes):
            each.close()


@pytest.fixture(params=["scripts", "no scripts"])
def scripts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether letters are moved with a script, or on the engine with PS.EXEC."""
    if request.param == "no scripts":
        monkeypatch.setattr(Capabilities, "may_run_scripts", lambda _: False)
        monkeypatch.setattr(Capabilities, "stops_at_errors", lambda _: False)
    return bool(request.param == "scripts")


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_kill_at_any_step_neither_loses_nor_doubles_a_letter(
    site: Site, scripts: bool, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill before or after any exchange with the server, the next run replays each letter once and removes all
    notes.
    """
    pipeline = Link.pipeline

    def dies_at(step: int) -> None:
        counted = itertools.count()

        def dies(link: Link, commands: Sequence[Command]) -> list[Any]:
            if next(counted) != step:
                return pipeline(link, commands)
            if not before:
                pipeline(link, commands)
            raise KilledError

        monkeypatch.setattr(Link, "pipeline", dies)

    for step in itertools.count():
        site.write()
        with closing(site.connection()) as connection:
            letters = find(connection)
            dies_at(step)
            try:
                put_back(connection, letters)
                break
            except KilledError:
                pass
            finally:
                monkeypatch.setattr(Link, "pipeline", pipeline)
        if not site.url.startswith("redis+cluster"):
            assert sorted(site.numbers("orders") + site.numbers("failed")) == [*range(LETTERS)], step
        site.client.xadd("failed", {**ORIGIN, "n": LETTERS})
        with closing(site.connection()) as connection:
            put_back(connection)
        assert site.numbers("orders") == [*range(LETTERS + 1)], step
        assert (site.keys(), site.client.xlen("failed")) == ({b"orders", b"failed"}, 0), step
    assert step > 1


@pytest.mark.parametrize("refusal", ["no IDs", "two IDs", "another type", "no memory"])
def test_a_letter_that_cannot_be_added_stays(site: Site, scripts: bool, refusal: str) -> None:
    """If XADD fails, letters that were not added stay in the dead-letter stream and can be replayed later."""
    site.write()
    if refusal == "another type":
        site.client.set("orders", 1)
    elif refusal != "no memory":
        last = StreamId.of(LAST - 2) if refusal == "two IDs" else LAST
        site.client.xadd("orders", {"n": -1}, id=str(last))
    with closing(site.connection(patience_ms=200 if refusal == "no memory" else 15_000)) as connection:
        letters = find(connection)
        try:
            if refusal == "no memory":
                for node in site.nodes:
                    node.config_set("maxmemory", 1)
                if scripts and len(site.nodes) == 1 and "engine_name" not in site.client.info("server"):
                    # A move needs no extra memory, so the script succeeds even at the memory limit.
                    assert put_back(connection, letters) == LETTERS
                    return
            with pytest.raises(PystreamsError) as failure:
                put_back(connection, letters)
        finally:
            for node in site.nodes:
                node.config_set("maxmemory", 0)
        expected = "NOT_A_STREAM" if refusal == "another type" else "SERVER_REFUSED"
        assert failure.value.condition == expected
        back = [] if refusal == "another type" else site.numbers("orders")
        added = 2 if refusal == "two IDs" and scripts else 0
        assert ([n for n in back if n >= 0], site.numbers("failed")) == ([*range(added)], [*range(added, LETTERS)])
        site.client.delete("orders")
        assert put_back(connection) == LETTERS - added
        assert site.numbers("orders") == [*range(added, LETTERS)]


def test_a_replay_into_a_busy_stream_succeeds(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters are replayed although another client adds to the target before each exchange with the server."""
    site.write()
    pipeline = Link.pipeline

    def busy(link: Link, commands: Sequence[Command]) -> list[Any]:
        site.client.xadd("orders", {"n": -1})
        return pipeline(link, commands)

    with closing(site.connection()) as connection:
        letters = find(connection)
        monkeypatch.setattr(Link, "pipeline", busy)
        assert put_back(connection, letters) == LETTERS
    assert [n for n in site.numbers("orders") if n >= 0] == [*range(LETTERS)]


def test_concurrent_replays_replay_each_letter_once(site: Site, scripts: bool) -> None:
    """Three connections that replay the same letters concurrently replay each letter once."""
    site.write(400)
    with closing(site.connection()) as connection:
        letters = find(connection)

    def work(_: int) -> int:
        with closing(site.connection()) as connection:
            return put_back(connection, letters)

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(work, range(3))) == 400
    assert site.numbers("orders") == [*range(400)]
    assert (site.keys(), site.client.xlen("failed")) == ({b"orders", b"failed"}, 0)


def test_a_note_of_an_earlier_letter_is_ignored(site: Site) -> None:
    """A note of an earlier letter with the same ID does not prevent the replay of a new letter."""
    site.write(1)
    (entry_id, fields) = site.client.xrange("failed")[0]
    with closing(site.connection()) as connection:
        assert put_back(connection) == 1
        site.client.delete("failed")
        site.client.xadd("failed", {**fields, b"n": 7}, id=entry_id)
        site.client.hset("pystreams:{orders}:letters:failed", entry_id, "0" * 32)
        assert put_back(connection) == 1
    assert site.numbers("orders") == [0, 7]


def test_a_letter_with_too_many_fields_for_a_script_is_replayed(site: Site) -> None:
    """A letter with more fields than a script accepts is replayed."""
    site.write(1)
    site.client.xadd("failed", {**ORIGIN, **{f"f{n}": n for n in range(10_000)}, "n": 1})
    with closing(site.connection()) as connection:
        assert put_back(connection) == 2
    assert site.numbers("orders") == [0, 1]
