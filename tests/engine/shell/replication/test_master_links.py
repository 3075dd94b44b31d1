"""Links to replicas that break at any byte, are slow, or end early: no data is lost, and no other client
is affected.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.engine.shell.replication.pairs import info
from tests.engine.shell.replication.tap import Tap
from tests.servers.connection import Connection
from tests.suite.waiting import wait_for


@pytest.fixture(scope="module")
def engine() -> Iterator[servers.Running]:
    with servers.engine() as running:
        yield running


@pytest.fixture
def master(engine: servers.Running) -> Iterator[Connection]:
    with Connection(engine) as client:
        client.run("FLUSHALL")
        yield client
        client.run("CONFIG", "SET", "client-output-buffer-limit", "replica 256mb 64mb 60")


def online(engine: servers.Running) -> tuple[Tap, str, int]:
    """Return a replica that has its file, the history's ID and the file's offset."""
    tap = Tap(engine, "eof", "psync2")
    tap.ask()
    name, offset = tap.full()
    tap.file()
    tap.acknowledge(offset)
    return tap, name, offset


def test_a_file_that_is_cut_off_affects_no_other_client(master, engine):
    """A replica that disconnects in the middle of its file affects neither other replicas nor clients."""
    for number in range(3000):
        master.send("SET", f"key:{number}", "x" * 1000)
    for _ in range(3000):
        master.receive()
    for size in (0, 5, 30, 80, 100_000, 2_000_000):
        with Tap(engine, "eof") as lost:
            lost.ask()
            assert len(lost.take(size)) == size
    tap, _, _ = online(engine)
    with tap:
        master.run("SET", "and", "on")
        assert tap.commands(b"on")[-1] == [b"SET", b"and", b"on"]
    assert master.run("DBSIZE") == 3001
    wait_for(
        lambda: not [file for file in engine.directory.iterdir() if file.name.startswith("temp-")],
        "temporary files to be removed",
    )


def test_a_replica_that_never_reads_is_disconnected_and_recovers(master, engine):
    """A replica with more unread bytes than client-output-buffer-limit is disconnected; when it reconnects, it gets all
    data.
    """
    master.run("CONFIG", "SET", "client-output-buffer-limit", "replica 2mb 0 0")
    tap, _, _ = online(engine)
    with tap:
        before = int(info(master, "stats")["client_output_buffer_limit_disconnections"])
        value = "x" * 500_000
        for number in range(40):
            master.run("SET", f"key:{number % 4}", value)
        wait_for(lambda: info(master)["connected_slaves"] == "0", "the replica to be cut off")
        assert int(info(master, "stats")["client_output_buffer_limit_disconnections"]) == before + 1
    tap, _, _ = online(engine)
    with tap:
        master.run("SET", "and", "again")
        assert tap.commands(b"again")[-1] == [b"SET", b"and", b"again"]


def test_a_slow_replica_s_acknowledgements_count(master, engine):
    """A replica's acknowledgement counts even if it has not read its stream yet."""
    tap, _, _ = online(engine)
    with tap:
        for number in range(20):
            master.run("SET", f"key:{number}", "x" * 500_000)
        end = int(info(master)["master_repl_offset"])
        tap.acknowledge(end)
        wait_for(lambda: f"offset={end}," in info(master)["slave0"], "the acknowledgement to count")


def test_a_message_follows_earlier_writes(master, engine):
    """In the replication stream a published message follows earlier writes, and all writes of its own transaction."""
    tap, _, _ = online(engine)
    with tap:
        for words in ("SET k 1", "PUBLISH news a", "MULTI", "PUBLISH news b", "SET k 2", "SET k 3", "EXEC"):
            master.send(*words.split())
        shown = [b" ".join(words).decode() for words in tap.commands(b"b")]
        assert shown[-6:] == ["PUBLISH news a", "MULTI", "SET k 2", "SET k 3", "EXEC", "PUBLISH news b"]
        assert shown[-7] == "SET k 1"
        for _ in range(7):
            master.receive()


def test_requests_for_acknowledgements_are_limited(master, engine):
    """A replica that acknowledges each request but is always behind gets a limited number of requests."""
    tap, _, offset = online(engine)
    with tap, Connection(engine) as waiting:
        waiting.run("SET", "k", "v")
        waiting.send("WAIT", 1, 250)
        asked = 0
        while True:
            try:
                tap.commands(b"*")
            except TimeoutError:
                break
            asked += 1
            tap.acknowledge(offset + asked)
            tap.client.socket.settimeout(0.2)
        assert 1 <= asked <= 5
        assert waiting.receive() == 0
