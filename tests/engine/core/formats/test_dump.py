"""DUMP and RESTORE: lossless, damaged payloads are rejected, and payloads are exchanged with real servers."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.core.dispatch import Core
from engine.core.formats.rdb import group_fields, primitives
from engine.core.keyspace import image
from engine.core.protocol.ids import MAX_ID
from engine.core.protocol.replies import OK, Pages
from engine.shell.durability import psb
from engine.shell.durability.files import Files
from tests import servers
from tests.engine.core.formats.rdb_files import unsupported
from tests.engine.shell.durability.workload import empty_core, everything
from tests.harness.replay import NOW_US, check_replay, new_core, replayed, state
from tests.servers.connection import Connection
from tests.suite.long import FULL

WORDS = st.one_of(
    st.binary(max_size=20),
    st.integers(-(1 << 64), 1 << 64).map(lambda number: b"%d" % number),
    st.sampled_from([b"", b"-0", b"007", b"127", b"128", b"-4096", b"4095", b"4096", b"8388608"]),
    st.sampled_from([b"x" * 64, b"y" * 4096]),
)


class Side:
    """A core, or a connection to a redis-server, that runs commands."""

    def __init__(self, connection: Connection | None = None) -> None:
        self.connection = connection
        self.core = new_core()
        self.session = self.core.open_session(NOW_US)

    def run(self, *words: bytes | str) -> Any:
        if self.connection is not None:
            return self.connection.run(*words)
        argv = [word.encode() if isinstance(word, str) else word for word in words]
        reply = self.core.execute(self.session, argv, NOW_US)
        if type(reply) is Pages:  # a long payload
            return b"".join(chunk for page in reply.pages for several in page for chunk in several.parts)[: reply.size]
        return reply


@given(st.lists(WORDS, max_size=12))
@example([b"a" * size for size in (63, 64, 125, 126, 127, 128, 4095, 4096, 16377, 16378, 16379, 16380, 16381, 16382)])
def test_listpacks_are_restored(words):
    """Unpacking a packed listpack gives the original words."""
    assert primitives.read_listpack(primitives.listpack_of(primitives.elements(words))) == words
    assert primitives.elements(words) == list(map(primitives.element, words))


#: Parts of values with line ends, which may look like frames.
LINES = st.sampled_from([b"a", b"\r\n", b"$1", b"*2", b"$3\r\n1-2", b"*2\r\n$1\r\nf\r\n$1"])
VALUES = WORDS | st.lists(LINES, max_size=5).map(b"".join)


@given(st.lists(st.tuples(st.integers(0, 5000), VALUES, VALUES, st.integers(0, 9)), min_size=1, max_size=20))
def test_entries_of_any_values_are_read_back(entries):
    """Nodes of entries with any values, and some with other fields, give the same entries and are written again."""
    side, ms = Side(), 0
    for number, (step, one, other, kind) in enumerate(entries, 1):
        ms += step
        words = (b"f", one, b"%d", other) if kind else (b"f", other)
        assert side.run("XADD", "s", b"%d-%d" % (ms, number), *words)
    payload = side.run("DUMP", "s")
    assert side.run("RESTORE", "copy", "0", payload) == OK
    assert side.run("DUMP", "copy") == payload
    copy, stream = (side.core.databases[0].stream(key) for key in (b"copy", b"s"))
    assert list(map(copy.frame, copy.ids(0, MAX_ID))) == list(map(stream.frame, stream.ids(0, MAX_ID)))
    assert copy.length == len(entries)


@pytest.mark.parametrize("size", [1023, 1024, 1025, 8191, 70_001, 200_000])
def test_the_checksum_of_long_payloads(size):
    """The checksum of all words at once equals the one that is continued with a few bytes at a time."""
    data, crc = Random(size).randbytes(size), 0
    for at in range(0, size, 100):
        crc = primitives.crc64(data[at : at + 100], crc)
    assert primitives.crc64(data) == crc


def fill(side: Side) -> None:
    """Create a key of each type and size."""
    side.run("SET", "string", "hello")
    side.run("SET", "number", "-12345")
    side.run("SET", "repeats", "abcabc" * 500)
    side.run("APPEND", "string", " world")
    side.run("HSET", "hash", "a", "1", "b", "x" * 50)
    side.run("HSET", "big", *[word for number in range(700) for word in (f"f{number}", f"v{number}")])
    for number in range(1, 250):
        side.run("XADD", "stream", f"{number // 3}-{number}", "f", f"{number}", "g", "x" * (number % 70))
    side.run("XADD", "stream", "5000-0", "other", "fields", "than", "before", "n", "17")
    side.run("XDEL", "stream", "1-4", "2-7")
    side.run("XGROUP", "CREATE", "stream", "g", "0")
    side.run("XGROUP", "CREATE", "stream", "empty", "$", "ENTRIESREAD", "7")
    side.run("XREADGROUP", "GROUP", "g", "alice", "COUNT", "30", "STREAMS", "stream", ">")
    side.run("XREADGROUP", "GROUP", "g", "bob", "COUNT", "5", "STREAMS", "stream", ">")
    side.run("XACK", "stream", "g", "1-5", "3-10")


KEYS = ("string", "number", "repeats", "hash", "big", "stream")


def test_a_round_trip_loses_nothing():
    """DUMP, RESTORE and DUMP again give the same bytes and the same data, and so does replaying the log."""
    source, target = Side(), Side()
    fill(source)
    for key in KEYS:
        payload = source.run("DUMP", key)
        assert target.run("RESTORE", key, "0", payload) == OK
        assert target.run("DUMP", key) == payload
    assert state(target.core, times=True) == state(source.core, times=True)
    check_replay(target.core, NOW_US)


def test_a_deleted_entry_stays_released():
    """A released entry that was deleted stays released after DUMP and RESTORE.

    A group that reads again from the beginning does not get the entry.
    """
    source, target = Side(), Side()
    for number in (1, 2, 3):
        source.run("XADD", "s", f"{number}-1", "f", "v")
    source.run("XGROUP", "CREATE", "s", "g", "0")
    source.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    source.run("XNACK", "s", "g", "FAIL", "IDS", "2", "2-1", "3-1")
    source.run("XDEL", "s", "2-1")
    source.run("XGROUP", "SETID", "s", "g", "0")
    source.run("XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", ">")
    group = source.core.databases[0].stream(b"s").groups[b"g"]
    assert list(group.nacked) == [2 << 64 | 1]
    assert target.run("RESTORE", "s", "0", source.run("DUMP", "s")) == OK
    assert state(target.core, times=True) == state(source.core, times=True)


@pytest.mark.parametrize("name", ["c", ""])
def test_an_active_time_needs_an_encoding_that_has_it(name):
    """A consumer whose active time differs from its seen time needs the encoding of 7.2, even if its name is empty."""
    side = Side()
    side.run("XADD", "s", "1-1", "f", "v")
    side.run("XGROUP", "CREATE", "s", "g", "0")
    side.run("XGROUP", "CREATECONSUMER", "s", "g", name)
    assert side.run("DUMP", "s")[0] == group_fields.V7_2
    side.run("XREADGROUP", "GROUP", "g", name, "STREAMS", "s", ">")
    assert side.run("DUMP", "s")[0] == group_fields.V7_0


@pytest.mark.parametrize("name", unsupported())
def test_the_type_of_an_unsupported_payload_is_named(name):
    """RESTORE of a value that the engine does not store fails with the name of the type, and creates no key."""
    kind, data = unsupported()[name]
    if data[9] in (0xF5, 0xF7, 0xFA):
        pytest.skip("not a value")
    version = b"\x50\0" if data.startswith(b"VALKEY") else b"\x0e\0"
    value = data[12:-9]
    side = Side()
    reply = side.run("RESTORE", "k", "0", mutated(data[9:10] + value, version))
    assert reply.text == b"ERR unsupported value: this engine stores streams; %b need Redis or Valkey" % kind.encode()
    assert side.run("DBSIZE") == 0


def test_a_payload_of_valkey_is_restored():
    """The DUMP of a hash by Valkey 9, which numbers its format versions differently, is restored."""
    side = Side()
    payload = b"\x10\x12\x12\0\0\0\4\0\x81f\2\x81v\2\x81g\2\1\1\xffP\0\xec\xeblr\xc3\xa8\x8f\xe8"
    assert side.run("RESTORE", "h", "0", payload) == OK
    assert side.run("HGET", "h", "f") == b"v"


def test_a_node_without_live_entries_is_restored():
    """A node whose entries are all deleted is restored: here after XADD 1-1, XADD 2-1, XDEL 2-1, XTRIM MINID 2."""
    side = Side()
    node = b"\x0f\0\0\1\2\1\1\1\x81a\2\0\1\3\1\0\1\0\1\x81b\2\4\1\3\1\1\1\0\1\x81b\2\4\1\xff"
    body = b"\x13\1\x10" + bytes((0, 0, 0, 0, 0, 0, 0, 1) * 2) + b"((\0\0\0" + node
    body += b"\0\2\1\0\0\2\1\2\1\1g\0\0\x81" + b"\xff" * 8 + b"\0\0\n\0"
    assert side.run("RESTORE", "s", "0", body + primitives.crc64(body).to_bytes(8, "little")) == OK
    assert side.run("XLEN", "s") == 0
    assert side.run("XADD", "s", "2-1", "f", "v").text.startswith(b"ERR The ID specified in XADD is equal or smaller")
    assert side.run("XADD", "s", "3-1", "f", "v") == b"3-1"
    assert side.run("RESTORE", "copy", "0", side.run("DUMP", "s")) == OK


@pytest.fixture
def redis_side():
    with servers.redis() as running, Connection(running) as connection:
        yield Side(connection)


def tiny(side: Side) -> None:
    """Create a key of each type, so small that most bytes of its payload are numbers and types."""
    side.run("SET", "string", "hello")
    side.run("HSET", "hash", "a", "1", "b", "xyz")
    for number in range(1, 5):
        side.run("XADD", "stream", f"{number}-{number}", "f", f"{number}", "g", "x")
    side.run("XDEL", "stream", "2-2")
    side.run("XGROUP", "CREATE", "stream", "g", "0")
    for consumer in ("a", "a", "b"):
        side.run("XREADGROUP", "GROUP", "g", consumer, "COUNT", "1", "STREAMS", "stream", ">")
    for stream, argv in (("nacked", "XNACK {} g FAIL IDS 1 1-1"), ("producers", "XADD {} IDMP p first * f v")):
        side.run("COPY", "stream", stream)
        side.run(*argv.format(stream).split())


def mutated(body: bytes, version: bytes = b"\x0e\x00") -> bytes:
    """Return a payload of this body with a valid checksum."""
    body += version
    return body + primitives.crc64(body).to_bytes(8, "little")


NUMBERS = [1 << 63, (1 << 63) - 1, (1 << 64) - 1, (1 << 64) - 2, 1 << 32, 1_700_000_000_000, 86_401, 0]
BYTES = st.one_of(
    st.sampled_from([b"\x81" + number.to_bytes(8, "big") for number in NUMBERS]),
    st.sampled_from([number.to_bytes(8, "little") for number in NUMBERS]),
    st.binary(min_size=1, max_size=1),
    st.sampled_from([b"", b"\xc0\x05", bytes(16)]),
)


@settings(deadline=None, max_examples=250 if FULL else 60)
@given(st.data())
def test_a_restored_payload_can_be_stored(tmp_path_factory, data):
    """Any changed payload with a valid checksum that RESTORE accepts can be dumped, logged and written
    to a snapshot.
    """
    source, side = Side(), Side()
    tiny(source)
    key = data.draw(st.sampled_from(["string", "hash", "stream", "nacked", "producers"]))
    body = bytearray(source.run("DUMP", key)[:-10])
    for _ in range(data.draw(st.integers(1, 2))):
        position, new = data.draw(st.integers(0, len(body) - 1)), data.draw(BYTES)
        body[position : position + data.draw(st.sampled_from([0, 1, 1, len(new)]))] = new
    reply = side.run("RESTORE", "copy", "0", mutated(bytes(body)))
    if reply != OK:
        assert reply.text == b"ERR Bad data format" or reply.text.startswith(b"ERR unsupported value: ")
        return
    survives(side, tmp_path_factory.mktemp("restored") / "x")


def survives(side: Side, path: Path) -> None:
    """Check that the core is unchanged by DUMP and RESTORE, by its log and by a snapshot."""
    core, copy = side.core, Side()
    assert copy.run("RESTORE", "copy", "0", side.run("DUMP", "copy")) == OK
    assert everything(copy.core)["state"] == everything(core)["state"]
    check_replay(core, NOW_US)
    taken = image.capture(core.databases, core.changes.now)
    psb.write(Files(), path, taken)
    again = empty_core()
    psb.load(memoryview(path.read_bytes()), again)
    assert everything(again) == everything(core)


@pytest.mark.parametrize("read", [(1 << 63) - 1, (1 << 64) - 1])
def test_the_largest_numbers_are_kept(read, tmp_path):
    """An entries-read of 2^63 - 1 and an unknown entries-read are restored."""
    side = Side()
    assert side.run("RESTORE", "copy", "0", payload_of_a_group(read)) == OK
    survives(side, tmp_path / "x")


@pytest.mark.parametrize("read", [1 << 63, (1 << 64) - 2])
def test_an_entries_read_above_the_maximum_is_rejected(read):
    """RESTORE rejects an entries-read of 2^63 or more, because no reply, log or snapshot can hold it."""
    assert Side().run("RESTORE", "copy", "0", payload_of_a_group(read)).text == b"ERR Bad data format"


def payload_of_a_group(read: int) -> bytes:
    """Return the payload of a stream without entries whose group has this entries-read."""
    return mutated(
        bytes((19,)) + bytes(1 + 1 + 6) + b"\0\1" + b"\1g\0\0" + primitives.length(read) + b"\0\0", b"\x0a\0"
    )


def counters(core: Core) -> list[Any]:
    """Return entries-added of the stream ``copy``, and its group's entries-read and lag in XINFO and PS.STATE."""
    session = core.open_session(NOW_US)
    stream, (group,) = (core.execute(session, [b"XINFO", word, b"copy"], NOW_US) for word in (b"STREAM", b"GROUPS"))
    position = core.execute(session, [b"PS.STATE", b"copy", b"g"], NOW_US)[-1]
    return [stream[stream.index(b"entries-added") + 1], *group[-3::2], *position[1::2]]


@pytest.mark.parametrize("added", [(1 << 63) - 1, (1 << 63) - 2])
def test_counters_stop_at_the_largest_number(added, tmp_path):
    """Counters of a stream stop at 2^63 - 1.

    XSETID sets almost 2^63 entries, and more are added and read: replies, DUMP, the log and a snapshot have numbers of
    63 bits.
    """
    side, copy = Side(), Side()
    side.run("XADD", "copy", "1-1", "f", "v")
    side.run("XGROUP", "CREATE", "copy", "g", "0")
    assert side.run("XSETID", "copy", "5-0", "ENTRIESADDED", str(added)) == OK
    side.run("XGROUP", "SETID", "copy", "g", "5-0", "ENTRIESREAD", str(added))
    for number in (6, 7, 8):
        side.run("XADD", "copy", f"{number}-1", "f", "v")
        if number < 8:
            side.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", "copy", ">")
        most = (1 << 63) - 1
        assert all(0 <= number <= most for number in counters(side.core))
    assert counters(side.core)[:2] == [most, most]
    assert copy.run("RESTORE", "copy", "0", side.run("DUMP", "copy")) == OK
    taken = image.capture(side.core.databases, side.core.changes.now)
    psb.write(Files(), tmp_path / "x", taken)
    saved = empty_core()
    psb.load(memoryview((tmp_path / "x").read_bytes()), saved)
    for core in (copy.core, saved, replayed(side.core.changes.effects, NOW_US)):
        assert counters(core)[:2] == [most, most]


def test_a_deadline_above_the_maximum_is_rejected():
    """RESTORE rejects a time to live that ends after 2^63 ms, as PEXPIRE does, and keeps lower ones."""
    side = Side()
    side.run("SET", "k", "v")
    payload = side.run("DUMP", "k")
    reply = side.run("RESTORE", "copy", f"{(1 << 63) - 1}", payload)
    assert reply.text == b"ERR invalid expire time in 'restore' command"
    assert side.run("RESTORE", "copy", f"{(1 << 63) - 1}", payload, "ABSTTL") == OK
    assert side.run("PEXPIRETIME", "copy") == (1 << 63) - 1
    check_replay(side.core, NOW_US)


def queried(side: Side) -> list[Any]:
    """Return everything that a client can query about the keys, except times."""
    groups = [
        [row[:2] + row[3:] for row in side.run("XPENDING", "stream", "g", "-", "+", "100")],
        side.run("XPENDING", "stream", "g"),
    ]
    return [
        side.run("GET", "string"),
        side.run("GET", "number"),
        side.run("GET", "repeats"),
        side.run("HGETALL", "hash"),
        sorted(side.run("HGETALL", "big")),
        side.run("XLEN", "stream"),
        groups,
        side.run("XINFO", "GROUPS", "stream"),
    ]


@pytest.mark.redis
def test_redis_restores_what_we_dump(redis_side):
    """A real server accepts the engine's payloads with full sanitizing, and gives the engine's replies."""
    ours = Side()
    fill(ours)
    redis_side.run("CONFIG", "SET", "sanitize-dump-payload", "yes")
    for key in KEYS:
        reply = redis_side.run("RESTORE", key, "0", ours.run("DUMP", key))
        assert reply == b"OK", (key, reply)
    assert queried(redis_side) == queried(ours)


@pytest.mark.redis
def test_we_restore_what_redis_dumps(redis_side):
    """The engine accepts a real server's payloads, with compressed strings and deleted entries, and
    then gives the server's replies.
    """
    ours = Side()
    fill(redis_side)
    for key in KEYS:
        assert ours.run("RESTORE", key, "0", redis_side.run("DUMP", key)) == OK, key
    assert queried(redis_side) == queried(ours)
    for key in KEYS:
        assert redis_side.run("RESTORE", key, "0", ours.run("DUMP", key), "REPLACE") == b"OK", key
