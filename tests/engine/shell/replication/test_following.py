"""Replies and errors of a replica: passwords, TLS, data that arrives or is damaged, and a silent master."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis as redis_py

from engine.core.clients.session import Session
from engine.core.dispatch import Core, FatalError
from engine.shell.replication.link import MasterLink, command
from engine.shell.replication.replica import ReplicaRole
from tests import servers
from tests.engine.shell.replication import scripted
from tests.engine.shell.replication.family import follow, replication, trouble, wait_until_up
from tests.engine.shell.replication.world import World, turns
from tests.servers import topologies
from tests.suite.waiting import wait_for

EMPTY_RDB = bytes.fromhex("524544495330303131ff") + bytes(8)
_SET = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n%b\r\n"


@pytest.fixture(scope="module")
def engine():
    with servers.engine() as running:
        yield running


@pytest.fixture
def replica(engine):
    with redis_py.Redis(port=engine.port, socket_timeout=20) as client:
        yield client
        client.execute_command("REPLICAOF", "NO", "ONE")
        client.config_set("replica-serve-stale-data", "yes")
        client.flushall()


@pytest.fixture
def master() -> Iterator[scripted.Master]:
    with scripted.master() as found:
        yield found


FULL = b"+FULLRESYNC " + b"a" * 40 + b" 0\r\n"


def test_replies_while_data_arrives(replica, master):
    """While data arrives, INFO reports progress, and the old data is served if replica-serve-stale-data is yes.

    After a lost link the old data is still there.
    """
    replica.set("old", "1")
    follow(replica, master.port)
    link = master.next()
    link.sendall(FULL + b"$1000000\r\nREDIS0011")
    wait_for(lambda: replication(replica)["master_sync_in_progress"], "the data to come")
    assert replica.execute_command("ROLE")[3] == b"sync"
    assert replica.get("old") == b"1"
    assert replication(replica)["master_sync_total_bytes"] == 1_000_000
    replica.config_set("replica-serve-stale-data", "no")
    with pytest.raises(redis_py.ResponseError, match="Link with MASTER is down"):
        replica.get("old")
    replica.config_set("replica-serve-stale-data", "yes")
    scripted.hang_up(link)
    wait_for(lambda: "closed the connection" in trouble(replica), "the loss of the link")
    assert replica.get("old") == b"1"
    assert not replica.info("persistence")["loading"]


def test_client_pause_holds_the_master_s_stream_back(replica, master):
    """CLIENT PAUSE on a replica holds the master's commands back, too; after the pause they run."""
    follow(replica, master.port)
    link = master.next()
    link.sendall(scripted.full(EMPTY_RDB))
    wait_until_up(replica)
    replica.client_pause(60_000, all=False)
    sent = command(b"SET", b"k", b"v")
    link.sendall(sent)
    wait_for(lambda: replication(replica)["slave_read_repl_offset"] == len(sent), "the master's command to arrive")
    assert replication(replica)["slave_repl_offset"] == 0
    assert replica.get("k") is None
    replica.client_unpause()
    wait_for(lambda: replica.get("k") == b"v", "the master's commands to run")


def test_a_silent_master_is_disconnected(replica, master):
    """If the master sends nothing for repl-timeout after PSYNC, the replica closes the link."""
    replica.config_set("repl-timeout", 1)
    follow(replica, master.port)
    master.next()
    wait_for(lambda: "repl-timeout" in trouble(replica), "the link to be given up")
    replica.config_set("repl-timeout", 60)


@pytest.mark.redis
def test_a_master_with_users(replica):
    """masteruser and masterauth log in; without them, or with wrong ones, INFO has the master's error."""
    with servers.redis("--requirepass", "top", "--repl-diskless-sync-delay", "0") as running:
        with redis_py.Redis(port=running.port, password="top") as client:
            client.execute_command("ACL", "SETUSER", "copier", "on", ">secret", "+psync", "+replconf", "+ping")
        follow(replica, running.port)
        wait_for(lambda: "NOAUTH" in trouble(replica), "the refusal")
        replica.config_set("masteruser", "copier")
        replica.config_set("masterauth", "wrong")
        follow(replica, running.port, "localhost")
        wait_for(lambda: "WRONGPASS" in trouble(replica), "the wrong password")
        replica.config_set("masterauth", "secret")
        follow(replica, running.port)
        wait_until_up(replica)
        replica.config_set("masteruser", "")
        replica.config_set("masterauth", "top")
        follow(replica, running.port, "localhost")
        wait_until_up(replica)
        replica.config_set("masterauth", "")


@pytest.mark.redis
def test_a_link_over_tls(replica):
    """With tls-replication the link uses TLS: the replica presents its certificate, and verifies the master's."""
    with topologies.encrypted("--repl-diskless-sync-delay", "0") as secure:
        replica.config_set("tls-replication", "yes")
        follow(replica, secure.port)
        wait_for(lambda: "tls-ca-cert-file" in trouble(replica), "the authority to be missed")
        replica.config_set("tls-ca-cert-file", str(secure.ca))
        replica.config_set("tls-client-cert-file", str(secure.certificate))
        replica.config_set("tls-client-key-file", str(secure.key))
        follow(replica, secure.port, "localhost")
        wait_until_up(replica)
        replica.config_set("tls-replication", "no")


def test_an_unexpected_error_stops_the_replica(tmp_path, monkeypatch):
    """An error within a command of the master ends the process, because the data may be half changed.

    No further command runs, nothing is acknowledged beyond the error, and the master's stream is not reported as
    invalid.
    """
    ran: list[bytes] = []
    run = Core.execute

    def execute(core: Core, session: Session, argv: list[bytes], now: int) -> object:
        ran.append(argv[-1])
        if argv[-1] == b"2":
            raise FatalError("SET", session_id=session.id) from ValueError("nobody has thought of this")
        return run(core, session, argv, now)

    monkeypatch.setattr(Core, "execute", execute)
    monkeypatch.setattr(MasterLink, "open", lambda *_: None)

    async def story() -> None:
        world = World(tmp_path)
        history = world.master.history
        replica = ReplicaRole(world.core, world, world.master, 1)
        replica.follow(b"127.0.0.1", 2)
        await asyncio.sleep(0)
        replica.connected()
        replica.received(b"+PONG\r\n" + 3 * b"+OK\r\n" + scripted.full(EMPTY_RDB, 100) + _SET % b"1")
        await turns(50)
        assert (replica.is_up, ran, history.offset) == (True, [b"1"], 100 + len(_SET % b"1"))
        replica.received(_SET % b"2" + _SET % b"3")
        await turns(50)
        replica.received(_SET % b"4")
        await turns(50)
        assert ran == [b"1", b"2"]
        assert [type(error) for error in world.errors] == [FatalError]
        assert history.offset == 100 + len(_SET % b"1")
        assert replica.trouble == ""
        replica.stop()

    asyncio.run(story())
