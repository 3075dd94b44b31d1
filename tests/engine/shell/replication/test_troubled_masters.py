"""An engine whose master disconnects or sends unusable data while the engine loads it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import redis

from engine.core.formats.rdb import writer
from engine.core.keyspace import image
from tests import servers
from tests.engine.shell.replication.family import follow, replication, trouble, wait_until_up
from tests.engine.shell.replication.scripted import HISTORY, full, hang_up, master
from tests.harness.replay import NOW_US, new_core
from tests.suite.waiting import wait_for

KEYS = 30_000


@pytest.fixture(scope="module")
def file() -> bytes:
    """Return an RDB file that takes some tens of milliseconds to load."""
    core = new_core()
    session = core.open_session(NOW_US)
    for number in range(KEYS):
        core.execute(session, [b"SET", b"key:%d" % number, b"value"], NOW_US)
    return b"".join(writer.write(image.capture(core.databases, NOW_US // 1000), 10))


@pytest.fixture(scope="module")
def engine() -> Iterator[servers.Running]:
    with servers.engine() as running:
        yield running


@pytest.fixture
def replica(engine: servers.Running) -> Iterator[redis.Redis]:
    with redis.Redis(port=engine.port, socket_timeout=20) as client:
        yield client
        client.execute_command("REPLICAOF", "NO", "ONE")
        client.flushall()


def test_a_master_that_disconnects_during_loading(replica, file):
    """If the master disconnects after its file, the replica still loads the file, and requests the stream after it."""

    def script(connection: socket.socket, words: list[bytes]) -> None:
        if words[1] == HISTORY:
            connection.sendall(b"+CONTINUE\r\n")
        else:
            connection.sendall(full(file, 70))
            hang_up(connection)

    with master(script) as other:
        follow(replica, other.port)
        wait_for(lambda: len(other.asked) > 1, "the replica to come back")
        wait_until_up(replica)
        assert other.asked == [(b"?", -1), (HISTORY, 71)]
    assert replica.dbsize() == KEYS


def test_damaged_data_leaves_the_old_data(replica, file):
    """If a second file is damaged, the replica has kept its data, and requests the stream after that data."""

    def script(connection: socket.socket, words: list[bytes]) -> None:
        if len(other.asked) == 1:
            connection.sendall(full(file))
            hang_up(connection)
        elif len(other.asked) == 2:
            # A compressed string that is damaged, in a file without a checksum.
            connection.sendall(full(file[:-9] + b"\x00\x03bad\xc3\x04\x05zzzz\xff" + bytes(8)))

    with master(script) as other:
        follow(replica, other.port)
        wait_for(lambda: len(other.asked) > 2, "the third attempt")
        assert "the item at this offset is damaged" in trouble(replica)
        assert other.asked[1:3] == [(HISTORY, 1), (HISTORY, 1)]
        assert replica.dbsize() == KEYS
        assert replication(replica)["master_link_status"] == "down"
    assert replica.save()
