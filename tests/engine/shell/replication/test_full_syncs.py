"""Full synchronisations without sockets: shared files, waiting replicas, and failures."""

from __future__ import annotations

import asyncio
from random import Random

import hiredis
import pytest

from engine.core.formats.damage import UnsupportedTypes
from engine.core.protocol.replies import CommandError
from engine.shell.clock import now_us
from engine.shell.durability import psb, rdb_file
from tests.differential.grammar import FAMILIES, Grammar
from tests.engine.shell.replication.world import FakePeer, World, in_loop, turns
from tests.harness.replay import new_core, state

SET = (b"SET", b"k", b"v")
FED = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"


def parts(peer: FakePeer) -> tuple[bytes, bytes, bytes]:
    """Return the reply to PSYNC, the file, and the stream after it."""
    reply, _, rest = peer.got.partition(b"\r\n")
    size, _, rest = rest.lstrip(b"\n").partition(b"\r\n")
    count = int(size[1:]) if size else 0
    return reply, rest[:count], rest[count:]


@in_loop
async def test_a_replica_without_an_acknowledgement_does_not_count(tmp_path):
    """WAIT and min-replicas-to-write do not count a replica that may still load its file."""
    world = World(tmp_path)
    world.run(*SET)
    peer = await world.join()
    await world.write_file()
    assert world.states() == ["online"]

    assert (world.master.acknowledged(0), world.master.good) == (0, 0)
    world.master.acknowledge(peer.session, 0)
    assert (world.master.acknowledged(0), world.master.good) == (1, 1)


@in_loop
async def test_replicas_share_the_file_that_is_being_written(tmp_path):
    """A replica that connects while a file is written for another one gets the same file, offset and stream.

    The file is removed afterwards.
    """
    world = World(tmp_path)
    world.run(b"SET", b"before", b"v")
    first = await world.join(b"eof")
    world.run(*SET)
    second = await world.join(b"eof")
    third = await world.join(b"eof", b"psb")
    assert len(world.work) == 1
    await world.write_file()
    assert first.got == second.got
    reply, file, stream = parts(first)
    assert (reply, file[:9], stream) == (b"+FULLRESYNC " + b"a" * 40 + b" 0", b"REDIS0010", FED)
    # The third replica needs another format, and is served now.
    assert third.got.startswith(b"+FULLRESYNC " + b"a" * 40 + b" %d\r\n" % len(FED))
    await world.write_file()
    assert b"PYSTREAMS-BASE\r\n" in third.got
    assert not list(tmp_path.iterdir())
    assert world.states() == ["online"] * 3


@in_loop
async def test_a_file_waits_for_more_replicas(tmp_path):
    """A file is written after ``repl-diskless-sync-delay`` seconds, or at once without ``repl-diskless-sync``."""
    for diskless, begun in (("yes", 0), ("no", 1)):
        world = World(tmp_path, "--repl-diskless-sync-delay", "100", "--repl-diskless-sync", diskless)
        await world.join(b"eof")
        assert len(world.work) == begun
        world.master.close()


@in_loop
async def test_a_full_disk_only_disconnects_the_replica(tmp_path):
    """If the file cannot be written, its replicas are disconnected and the file is removed."""
    world = World(tmp_path)
    replica = await world.join(b"eof", b"psb")
    world.disk.room = 100
    await world.write_file()
    assert replica.transport.aborted
    assert not list(tmp_path.iterdir())
    assert world.states() == []
    world.disk.heal()
    again = await world.join(b"eof", b"psb")
    await world.write_file()
    assert parts(again)[1]


@in_loop
async def test_a_slow_receiver_holds_up_no_other(tmp_path):
    """Each receiver of a file gets it as fast as it reads; one that disconnects gets no more."""
    world = World(tmp_path)
    for number in range(1500):
        world.run(b"SET", b"key:%d" % number, b"x" * 500)
    fast, slow, lost = [await world.join(b"eof", clogged=clogged) for clogged in (False, True, True)]
    await world.write_file()
    world.run(*SET)
    await turns()
    assert world.states() == ["online", "send_bulk", "send_bulk"]
    world.master.drop(lost.session)
    slow.clogged = lost.clogged = False
    async with asyncio.timeout(20):
        while world.states() != ["online", "online"]:
            await asyncio.sleep(0.001)
    assert fast.got == slow.got
    assert fast.got.endswith(FED)
    assert len(parts(fast)[1]) > 500_000 > len(lost.got)


@in_loop
async def test_a_stream_above_the_output_limit_closes_the_connection(tmp_path):
    """A replica is disconnected if the stream that waits for its file exceeds client-output-buffer-limit."""
    world = World(tmp_path, "--client-output-buffer-limit", "replica 3000 0 0")
    peer = await world.join(b"eof")
    world.run(b"SET", b"k", b"x" * 2000)
    assert not peer.transport.aborted
    world.run(b"SET", b"k", b"x" * 2000)
    assert peer.transport.aborted
    assert world.states() == []
    await world.write_file()
    assert not list(tmp_path.iterdir())


@in_loop
async def test_an_rdb_only_client_is_no_replica(tmp_path):
    """For an rdb-only client no effects are recorded, no stream follows the file, and INFO counts no replica."""
    world = World(tmp_path)
    peer = await world.join(b"eof", rdb_only=True)
    await world.write_file()
    assert not world.core.changes.recording
    world.run(*SET)
    world.master.tick()
    _, file, stream = parts(peer)
    assert (file[:5], stream) == (b"REDIS", b"")
    assert world.states() == []


@in_loop
async def test_the_backlog_is_dropped_after_its_ttl(tmp_path):
    """After repl-backlog-ttl without replicas, effects are not recorded any more and the backlog is dropped."""
    world = World(tmp_path, "--repl-backlog-ttl", "1")
    peer = await world.join(b"eof")
    assert world.core.changes.recording
    world.master.drop(peer.session)
    world.master.tick()
    assert world.core.changes.recording
    world.seconds += 2
    world.master.tick()
    assert not world.core.changes.recording
    assert not world.master.history.keeps


@pytest.mark.parametrize("state", ["send_bulk", "online"])
def test_a_silent_replica_is_disconnected(tmp_path, state):
    """A replica that reads nothing of its file, or sends nothing afterwards, for repl-timeout is disconnected.

    One that sends empty lines while it loads its file is not.
    """

    async def story() -> None:
        world = World(tmp_path)
        world.run(*SET)
        peer = await world.join(b"eof", clogged=state == "send_bulk")
        await world.write_file()
        assert world.states() == [state]
        for _ in range(3):
            world.seconds += 40
            peer.received += 1
            if state == "online":
                world.master.tick()
        assert not peer.transport.aborted
        world.seconds += 61
        world.master.tick()
        assert peer.transport.aborted

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(3))
def test_the_file_and_the_stream_give_the_master_s_data(tmp_path, seed):
    """While the image is taken, which needs several steps, and the file is written, commands change the data.

    The file and the stream after it give exactly the master's data.
    """

    async def story() -> None:
        random = Random(seed)
        world = World(tmp_path)
        world.now = now_us()
        steps = Grammar(random, set(FAMILIES)).sequence(600)
        for number in range(40_000):
            world.run(b"SET", b"more:%d" % number, b"v")
        for _, words in steps[:300]:
            world.run(*(word.encode() for word in words))
        world.run(b"DISCARD")
        session = world.core.open_session(1)
        peer = world.connections[session.id] = FakePeer(session)
        world.master.synchronise(session, b"?", -1)
        during = 0
        for _, words in steps[300:]:
            world.run(*(word.encode() for word in words))
            during += bool(peer.got) and not world.work
            await turns(random.choice((0, 0, 1)))
        assert during > 3
        while not world.work:
            await turns()
        await world.write_file()
        _, file, stream = parts(peer)
        other = new_core()
        other.changes.recording = False
        other.changes.set_time(world.now)
        rdb_file.load(memoryview(file), other, UnsupportedTypes(), expire=False)
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
async def test_only_an_engine_gets_a_file_in_the_engine_s_format(tmp_path):
    """Other servers, and a client that only copies the data, get an RDB file of rdb-version.

    The database that is selected in the stream of this server's master is in both files.
    """
    world = World(tmp_path, "--rdb-version", "12")
    world.run(b"HSET", b"k", b"f", b"v")
    world.master.full_syncs.stream_db = lambda: 3
    peers = [await world.join(b"eof", b"psb", rdb_only=rdb_only) for rdb_only in (True, False)]
    world.master.tick()
    # The second file waits for the first one, and its receiver gets empty lines meanwhile.
    assert [peer.got[:1] for peer in peers] == [b"+", b"\n"]
    while world.work:
        await world.write_file()
    rdb, own = (parts(peer)[1] for peer in peers)
    assert rdb[:9] == b"REDIS0012"
    assert b"repl-stream-db\xc0\x03" in rdb or b"repl-stream-db\x013" in rdb
    position = psb.position_of(memoryview(own))
    assert position is not None
    assert (position.id, position.db) == (b"a" * 40, 3)
