"""RDB files: reading restores the written data, in pieces of any size; all encodings are read; damage is an error."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.formats.damage import DamagedError
from engine.core.formats.rdb.primitives import length, listpack, string
from engine.core.keyspace.members import Form
from tests.engine.core.formats.fuzz import accepts, mutate
from tests.engine.core.formats.rdb_files import (
    NOW,
    SCORES,
    WORDS,
    expiring_hashes,
    file_of,
    foreign,
    key,
    old_forms,
    packed,
    read,
    samples,
    written,
    ziplist,
)
from tests.engine.shell.durability.workload import driven, everything, freeze, small_segments
from tests.harness.replay import new_core, state


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**9), version=st.sampled_from([10, 11, 12, 13, 14, 80]), cold=st.booleans())
def test_all_data_is_restored(seed, version, cold):
    """A file of any version holds all data of a core: entries, counters, groups, times, released entries, producers,
    other types and expiry.
    """
    with small_segments():
        core = driven(seed)
        if cold:
            freeze(core)
        data = written(core, version)
        again, summary = read(data, now=None)
        assert summary.version == version
        assert summary.has_sum
        assert state(again, times=True) == state(core, times=True)
        known = [{at: details[0] for at, details in everything(each)["close"].items()} for each in (core, again)]
        assert known[0] == known[1]


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**9), piece=st.integers(1, 300))
def test_pieces_of_any_size_give_the_same_keys(seed, piece):
    """Bytes that arrive in pieces of any size give the same keys as the whole file at once."""
    with small_segments():
        data = written(driven(seed, 60))
        assert state(read(data, piece=piece)[0], times=True) == state(read(data)[0], times=True)


def test_encodings_of_old_servers_are_read():
    """Lists, hashes, sets and sorted sets are read in every encoding since Redis 2.4, with expiry in seconds and idle
    times.
    """
    core, summary = read(old_forms())
    found = {name: value for name, value, _ in core.databases[0].items()}
    pairs = {b"f%d" % at: word for at, word in enumerate(WORDS)}
    for name in (b"list", b"ziplist", b"quicklist", b"quicklist2"):
        more = {b"quicklist": WORDS[:3], b"quicklist2": [b"plain"]}.get(name, [])
        assert list(found[name]) == WORDS + more, name
    for name in (b"hash", b"zipmap", b"hash ziplist", b"hash listpack", b"hash of 7.4", b"small hash of 7.4"):
        assert dict(found[name]) == pairs, name
    sets = {
        b"set": (Form.TABLE, WORDS),
        b"intset": (Form.NUMBERS, [b"-5", b"1"]),
        b"wide intset": (Form.NUMBERS, [b"%d" % (-1 << 63), b"1", b"%d" % (1 << 40)]),
        b"set listpack": (Form.SMALL, [b"b", b"a", b"7"]),
    }
    assert {name: (found[name].form, found[name].shown()) for name in sets} == sets
    for name in (b"scores as text", b"scores", b"scores ziplist", b"scores listpack"):
        assert (found[name].shown(), found[name].big) == (SCORES, False), name
    db = core.databases[0]
    assert (db.deadline(b"expires"), db.idle(b"expires")) == (NOW // 1000 * 1000 + 100_000, 60_000)
    assert b"expired" not in found
    assert (summary.expired, summary.keys) == (1, 19)


@pytest.mark.parametrize("form", expiring_hashes())
def test_deadlines_of_hash_fields_are_read(form):
    """Deadlines of hash fields are read from the two encodings of Redis and the one of Valkey."""
    core, _ = read(expiring_hashes()[form])
    fields = core.databases[0].get(b"k")
    assert (dict(fields), fields.deadlines) == ({b"f": b"v", b"g": b"w"}, {b"f": NOW + 5})


@pytest.mark.parametrize("version", [10, 12, 14, 80])
def test_no_version_loses_deadlines_of_fields(version):
    """File versions without deadlines of fields keep them in auxiliary fields, which only the engine reads."""
    core = new_core()
    session = core.open_session(0)
    for command in (
        "HSET big " + " ".join(f"f{number} v" for number in range(300)),
        "HPEXPIREAT big 1800000000000 FIELDS 200 " + " ".join(f"f{number}" for number in range(200)),
        "HSET small a 1 b 2",
        "HPEXPIREAT small 1800000000001 FIELDS 1 b",
        "HPEXPIREAT small 1900000000001 FIELDS 1 a",
        "HSET plain a 1",
    ):
        core.execute(session, command.encode().split(), NOW * 1000)
    data = written(core, version)
    assert (b"pystreams-hash" in data) is (version == 10)
    loaded = read(data)[0]
    assert state(loaded) == state(core)
    assert loaded.changes.next_expiry == 1800000000000


@pytest.mark.parametrize("deadline", [b"0", b"-1", b"%d" % (1 << 63), b"x"])
def test_an_impossible_deadline_is_damage(deadline):
    """An impossible deadline of a field is damage, also in an auxiliary field."""
    core = new_core()
    session = core.open_session(0)
    for command in ("HSET k f v", "HPEXPIREAT k 4000000000000 FIELDS 1 f"):
        core.execute(session, command.encode().split(), NOW * 1000)
    data = written(core)
    known = string(b"4000000000000:66")
    assert known in data
    body = data[:-8].replace(known, string(deadline + b":66"))
    with pytest.raises(DamagedError):
        read(body + bytes(8))


@pytest.mark.parametrize("form", foreign())
def test_types_that_the_engine_lacks(form):
    """A type that the engine lacks is an error with the key and the type; with skipping, it is counted and the rest is
    read.
    """
    kind, data = foreign()[form]
    with pytest.raises(DamagedError, match=f"unsupported {kind}; set 'load-unknown skip'") as error:
        read(data)
    assert error.value.offset == 9
    if form != "data of a module":
        assert "key 'k' of database 0" in str(error.value)
    behind = file_of(data[9:-9], key(0, b"behind", string(b"it")), magic=data[:9])
    core, summary = read(behind, skip=True)
    assert summary.left_out == {kind: 1}
    assert state(core)[0].keys() == {b"behind"}


@pytest.mark.parametrize(
    "data",
    [
        key(5, b"k", length(1), string(b"a"), struct.pack("<d", math.nan)),
        key(5, b"k", length(2), *(2 * (string(b"a"), bytes(8)))),
        key(5, b"k", length(0)),
        key(3, b"k", length(1), string(b"a"), b"\xfd"),
        key(3, b"k", length(1), string(b"a"), b"\x031.x"),
        key(17, b"k", packed(listpack([b"a", b"nan"]))),
        key(17, b"k", packed(listpack([b"a", b"1", b"b"]))),
        key(12, b"k", packed(ziplist([b"a", b"1", b"a", b"2"]))),
    ],
)
def test_an_impossible_sorted_set_is_damage(data):
    """A score that is not a number, a member without a score or with two, and a set without members are damage."""
    with pytest.raises(DamagedError, match="key 'k' of database 0"):
        read(file_of(data))


def test_errors_that_skipping_does_not_avoid():
    """Unknown types or codes, a newer version, a missing database and a repeated key are errors even with skipping."""
    text = key(0, b"k", string(b"v"))
    for data, says in (
        (file_of(key(99, b"k", b"???")), "key 'k' of database 0: a value of type 99 is not supported"),
        (file_of(key(22, b"k", b"???")), "type 22"),
        (file_of(key(24, b"k"), magic=b"VALKEY080"), "type 24"),
        (file_of(b"\xf1"), "code 241"),
        (file_of(magic=b"REDIS0015"), "version 15"),
        (file_of(magic=b"VALKEY081"), "version 81"),
        (file_of(magic=b"REDIS9999"), "version 9999"),
        (b"RDB" + bytes(20), "not an RDB file"),
        (b"REDIS", "ends too early"),
        (file_of(b"\xfe" + length(16)), "a database 16, but 'databases' is 16"),
        (file_of(text, text), "key 'k' of database 0: the key occurs twice"),
        (file_of(key(1, b"k", length(0))), "without elements"),
    ):
        with pytest.raises(DamagedError, match=says):
            read(data, skip=True)


def test_a_file_without_a_checksum_is_read():
    """A checksum of zero (rdbchecksum no) and a file before version 5, which has no checksum, are accepted."""
    body = file_of(key(0, b"k", string(b"v")))[:-8]
    _, summary = read(body + bytes(8))
    assert (summary.keys, summary.has_sum) == (1, False)
    assert read(b"REDIS0004" + body[9:])[1].keys == 1


def test_a_changed_byte_anywhere_is_an_error():
    """In a file with a checksum, every changed byte and every truncation is an error."""
    data = file_of(key(0, b"k", string(b"v")), b"\xfc" + struct.pack("<q", NOW + 9), key(0, b"l", string(b"w" * 30)))
    for at in range(len(data)):
        for wrong in (data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :], data[:at]):
            with pytest.raises(DamagedError) as caught:
                read(wrong, skip=True)
            assert 0 <= caught.value.offset <= len(data)


def test_mutated_files():
    """A mutated file is an error, or the whole file is accepted and can be written again (``make fuzz`` tries more)."""
    files = samples()
    outcomes = [accepts(mutate(files, 1, number)) for number in range(1500)]
    assert outcomes.count(True) > 20
    assert outcomes.count(False) > 500
