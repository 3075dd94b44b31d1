"""Full synchronisations without sockets: shared files, waiting replicas, and failures."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import hiredis
import pytest

from engine.core.clients.session import AsReplica
from engine.core.formats.unsupported_types import UnsupportedTypes
from engine.core.keyspace import image
from engine.core.protocol.replies import CommandError
from engine.shell.clock import now_us
from engine.shell.durability.rdb_file import RdbFiles
from engine.shell.replication.master import transfer
from engine.shell.replication.master.sync_states import Sync
from tests.differential.grammar import FAMILIES, Grammar
from tests.engine.shell.replication.master.world import MARK, FakePeer, World, in_loop, turns, whole
from tests.harness.replay import new_core, state

#: Capabilities and version that a replica announces, and the format of the file that it gets.
SERVERS = {
    "Redis 7": ((), b"", b"REDIS0010"),
    "Redis 8": ((b"rdb-channel-repl",), b"", b"REDIS0012"),
    "Valkey 8": ((), b"8.1.1", b"REDIS0011"),
    "Valkey 9": ((), b"9.1.2", b"VALKEY080"),
    "an engine": ((b"rdb-any",), b"8.10.0", b"REDIS0014"),
}
SET = (b"SET", b"k", b"v")
FED = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"


@in_loop
async def test_the_stream_waits_until_the_replica_acknowledges_the_file(tmp_path):
    """Until the replica acknowledges the file, nothing follows its end mark; afterwards the stream follows."""
    world = World(tmp_path)
    world.run(b"SET", b"before", b"v")
    peer = await world.join(b"eof")
    assert peer.got.startswith(b"+FULLRESYNC " + b"a" * 40 + b" 0\r\n$EOF:" + MARK + b"\r\nREDIS0010")
    assert peer.got.endswith(MARK)
    world.run(*SET)
    assert peer.got.endswith(MARK)
    world.master.acknowledge(peer.session, 0, -1)
    await turns()
    assert peer.got.endswith(MARK + FED)


@in_loop
async def test_a_replica_may_acknowledge_before_the_master_notices_the_end(tmp_path):
    """A replica that acknowledges the end mark before the master has noticed the end need not do so again."""
    world = World(tmp_path)
    peer = await world.join(b"eof", loop_turns=1)
    send = peer.send

    def send_and_answer(parts: list[Any]) -> None:
        send(parts)
        if peer.got.endswith(MARK) and peer.got.count(MARK) == 2:
            world.master.acknowledge(peer.session, 0, -1)

    peer.send = send_and_answer  # type: ignore[method-assign]
    await turns()
    world.run(*SET)
    await turns()
    assert peer.got.endswith(MARK + FED)


@in_loop
async def test_a_replica_without_an_acknowledgement_does_not_count(tmp_path):
    """WAIT and WAITAOF do not count a replica that may still be reading its file, even for offset 0."""
    world = World(tmp_path, "--repl-diskless-sync", "no")
    world.run(*SET)
    peer = await world.join()
    world.finish()
    await turns()
    assert [replica.state for replica in world.master.roster.online] == [Sync.ONLINE]
    counts = [[world.master.acknowledged(0, on_disk=on_disk) for on_disk in (False, True)]]
    for on_disk in (-1, 0):
        world.master.acknowledge(peer.session, 0, on_disk)
        counts.append([world.master.acknowledged(0, on_disk=on_disk) for on_disk in (False, True)])
    assert counts == [[0, 0], [1, 0], [1, 1]]


@in_loop
async def test_replicas_share_the_file_that_is_being_written(tmp_path):
    """A replica that connects while a file is written for another one gets the same file, offset and stream.

    The file is removed afterwards.
    """
    world = World(tmp_path, "--repl-diskless-sync", "no")
    first = await world.join(b"eof")
    world.run(*SET)
    second = await world.join(b"eof")
    third = await world.join(b"eof", b"psb")
    assert len(world.work) == 1
    world.finish()
    await turns()
    assert first.got == second.got
    assert first.got.startswith(b"+FULLRESYNC " + b"a" * 40 + b" 0\r\n$")
    assert first.got.endswith(FED)
    # The third replica needs another format, and is served now.
    assert third.got.startswith(b"+FULLRESYNC " + b"a" * 40 + b" %d\r\n" % len(FED))
    world.finish()
    await turns()
    assert b"PYSTREAMS-BASE\r\n" in third.got
    assert not list(tmp_path.iterdir())
    assert [replica.state.name for replica in world.master._roster.all.values()] == ["ONLINE"] * 3


@in_loop
async def test_a_full_disk_only_disconnects_the_replica(tmp_path):
    """If the file cannot be written, its replicas are disconnected and the file is removed.

    The next attempt of the same replica does not use the disk.
    """
    world = World(tmp_path)
    replica = await world.join(b"eof", b"psb")
    world.disk.room = 100
    world.finish()
    await turns()
    assert replica.transport.aborted
    assert not list(tmp_path.iterdir())
    assert not world.master._roster.all
    again = await world.join(b"eof", b"psb")
    assert b"\r\n$EOF:" in again.got
    world.run(*SET)


@in_loop
async def test_the_slowest_receiver_sets_the_pace(tmp_path):
    """While one receiver reads nothing, the file is not continued; after that receiver disconnects, the others get the
    rest.
    """
    world = World(tmp_path, "--repl-diskless-sync-max-replicas", "2", "--repl-diskless-sync-delay", "100")
    for number in range(1500):
        world.run(b"SET", b"key:%d" % number, b"x" * 500)
    fast = await world.join(b"eof")
    assert not fast.got
    slow = await world.join(b"eof", clogged=True)
    assert fast.got.startswith(b"+FULLRESYNC")
    await turns()
    assert b"REDIS" not in fast.got
    world.master.drop(slow.session)
    await whole(fast)


def test_many_receivers_are_sent_slices_in_turn(tmp_path, monkeypatch):
    """An iteration sends a slice of the file to some of the replicas.

    Each replica gets the whole file, and one that disconnects gets no more.
    """
    monkeypatch.setattr(transfer, "_TURN_BYTES", 1)

    async def story() -> None:
        world = World(tmp_path, "--repl-diskless-sync-max-replicas", "3", "--repl-diskless-sync-delay", "100")
        world.run(*SET)
        peers = [await world.join(b"eof", loop_turns=0) for _ in range(3)]
        grown = []
        while not peers[1].got.endswith(MARK):
            before = [len(peer.got) for peer in peers]
            await turns(1)
            grown.append(sum(len(peer.got) > size for peer, size in zip(peers, before, strict=True)))
            if b"REDIS" in peers[0].got and peers[2].session.id in world.connections:
                del world.connections[peers[2].session.id]
                world.master.drop(peers[2].session)
        # First the announcement to all replicas, then one slice to one replica at a time.
        assert [count for count in grown if count] == [3, 1, 1]
        assert peers[0].got == peers[1].got
        assert b"REDIS" not in peers[2].got

    asyncio.run(story())


@in_loop
async def test_a_stream_above_the_output_limit_closes_the_connection(tmp_path):
    """A replica is disconnected if the stream that waits for its file exceeds client-output-buffer-limit."""
    world = World(tmp_path, "--repl-diskless-sync", "no", "--client-output-buffer-limit", "replica 3000 0 0")
    peer = await world.join(b"eof")
    world.run(b"SET", b"k", b"x" * 2000)
    assert not peer.transport.aborted
    world.run(b"SET", b"k", b"x" * 2000)
    assert peer.transport.aborted
    assert not world.master._roster.all
    world.finish()
    await turns()
    assert not list(tmp_path.iterdir())


@in_loop
async def test_an_rdb_only_client_is_no_replica(tmp_path):
    """For an rdb-only client no effects are recorded, no stream follows the file, and INFO counts no replica."""
    world = World(tmp_path)
    peer = await world.join(b"eof", rdb_only=True)
    assert peer.got.endswith(MARK)
    assert not world.core.changes.recording
    world.run(*SET)
    world.master.tick()
    assert peer.got.endswith(MARK)
    assert world.master.info()[0] == ("connected_slaves", 0)


@in_loop
async def test_the_backlog_is_dropped_after_its_ttl(tmp_path):
    """After repl-backlog-ttl without replicas, effects are not recorded any more and the backlog is dropped."""
    world = World(tmp_path, "--repl-backlog-ttl", "1")
    peer = await world.join(b"eof")
    assert world.core.changes.recording
    world.master.drop(peer.session)
    world.master.tick()
    assert world.core.changes.recording
    world.master._left_at -= 2
    world.master.tick()
    assert not world.core.changes.recording
    assert not world.master.history.keeps


@pytest.mark.parametrize("state", ["sending", "online"])
def test_a_silent_replica_is_disconnected(tmp_path, state):
    """A replica that reads nothing of a file, or acknowledges nothing, for repl-timeout is disconnected."""

    async def story() -> None:
        world = World(tmp_path)
        for number in range(1500):
            world.run(b"SET", b"key:%d" % number, b"x" * 500)
        peer = await world.join(b"eof") if state == "online" else None
        if peer is None:
            session = world.core.open_session(1)
            session.as_replica = AsReplica(capabilities=frozenset({b"eof"}))
            peer = world.connections[session.id] = FakePeer(session)
            peer.clogged = True
            world.master.synchronise(session, b"?", -1)
            await turns()
        else:
            await whole(peer)
            world.master.acknowledge(peer.session, 0, -1)
            await turns()
        replica = world.master._roster.all[peer.session.id]
        world.master.tick()
        assert not peer.transport.aborted
        replica.last_ack -= 61
        replica.last_progress -= 61
        world.master.tick()
        assert peer.transport.aborted

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(3))
def test_the_file_and_the_stream_give_the_master_s_data(tmp_path, monkeypatch, seed):
    """While the image is taken and the file is made in pieces, commands change the data.

    The file and the stream after it give exactly the master's data.
    """
    # Divide the work into the shortest possible steps.
    monkeypatch.setattr(image, "_AT_ONCE", 1)
    monkeypatch.setattr(transfer, "_SLICE", 0.0)

    async def story() -> None:
        random = Random(seed)
        world = World(tmp_path)
        world.now = now_us()
        steps = Grammar(random, set(FAMILIES)).sequence(600)
        for number in range(150):
            world.run(b"XADD", b"more:%d" % number, b"*", b"f", b"v")
        for _, words in steps[:300]:
            world.run(*(word.encode() for word in words))
        world.run(b"DISCARD")
        peer = await world.join(b"eof", loop_turns=1)
        during = 0
        for _, words in steps[300:]:
            world.run(*(word.encode() for word in words))
            during += not peer.got.endswith(MARK)
            await turns(random.choice((0, 1, 2)))
        while not peer.got.endswith(MARK):
            await turns()
        assert during > 20
        world.master.acknowledge(peer.session, 0, -1)
        await turns()
        # Split at the last mark, because the file may end with the mark's digit.
        file, _, stream = peer.got.partition(MARK + b"\r\n")[2].rpartition(MARK)
        other = new_core()
        other.changes.recording = False
        other.changes.set_time(world.now)
        RdbFiles(other).load(memoryview(file), UnsupportedTypes(), expire=False)
        session = other.open_session(world.now)
        session.is_master = True
        reader = hiredis.Reader()
        reader.feed(stream)
        while argv := reader.gets():
            reply = other.execute(session, argv, world.now)
            assert not isinstance(reply, CommandError), (argv, reply)
        assert state(other) == state(world.core)

    asyncio.run(story())


@in_loop
async def test_a_replica_gets_a_file_version_that_it_supports(tmp_path):
    """A replica's announcements select the version of its file.

    A client that only copies the data gets the configured version.
    """
    world = World(tmp_path)
    world.run(b"HSET", b"k", b"f", b"v")
    for capabilities, version, magic in SERVERS.values():
        peer = await world.join(b"eof", *capabilities, version=version, loop_turns=60)
        file = peer.got.partition(MARK + b"\r\n")[2]
        assert file[:9] == magic
        assert file.endswith(MARK)
    peer = await world.join(b"eof", b"rdb-channel-repl", rdb_only=True, loop_turns=60)
    assert MARK + b"\r\nREDIS0010" in peer.got


@in_loop
async def test_replicas_of_other_versions_do_not_share_a_file(tmp_path):
    """Two replicas that read the same version share a file; a third one gets another file after it."""
    world = World(tmp_path)
    world.run(*SET)
    first = await world.join(b"eof", loop_turns=0)
    second = await world.join(b"eof", b"rdb-channel-repl", loop_turns=0)
    third = await world.join(b"eof", loop_turns=0)
    await turns(100)
    assert [peer.got.partition(MARK + b"\r\n")[2][:9] for peer in (first, second, third)] == [
        b"REDIS0010",
        b"REDIS0012",
        b"REDIS0010",
    ]
