"""RDB files: reading restores the written data; all encodings are read; damage is an error."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.formats.damage import DamagedError
from engine.core.formats.rdb.primitives import length, string
from tests.engine.core.formats.fuzz import accepts, mutate
from tests.engine.core.formats.rdb_files import (
    NOW,
    WORDS,
    file_of,
    key,
    old_forms,
    read,
    samples,
    unsupported,
    written,
)
from tests.engine.shell.durability.workload import driven, everything, freeze, small_segments
from tests.harness.replay import state
from tests.suite.long import FULL


@settings(deadline=None, max_examples=30 if FULL else 8)
@given(seed=st.integers(0, 10**9), version=st.sampled_from([10, 11, 12, 13, 14]), cold=st.booleans())
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


def test_encodings_of_old_servers_are_read():
    """Hashes are read in every encoding since Redis 5.0; idle times are skipped."""
    core, summary = read(old_forms())
    found = {name: value for name, value, _ in core.databases[0].items()}
    pairs = {b"f%d" % at: word for at, word in enumerate(WORDS)}
    for name in (b"hash", b"hash ziplist", b"hash listpack"):
        assert dict(found[name]) == pairs, name
    db = core.databases[0]
    assert db.deadline(b"expires") == NOW + 100_000
    assert b"expired" not in found
    assert (summary.expired, summary.keys) == (1, 4)


@pytest.mark.parametrize("name", unsupported())
def test_each_unsupported_type_is_counted(name):
    """A value of a type that the engine does not store is counted, and the rest is loaded."""
    kind, data = unsupported()[name]
    data = file_of(data[9:-9], key(0, b"after", string(b"v")), magic=data[:9])
    core, summary = read(data)
    assert ([*core.databases[0].items()], summary.left_out.counts) == ([(b"after", b"v", None)], {kind: 1})
    assert summary.left_out.offset in (9, 9 + data[9:].find(b"\4\1k"))


MIXED = file_of(
    key(0, b"before", string(b"v")),
    key(14, b"jobs", length(1), string(b"a")),
    b"\xfe" + length(3),
    key(14, b"more", length(1), string(b"a")),
    key(2, b"tags", length(1), string(b"a")),
    b"\xfc" + struct.pack("<q", NOW - 1),
    key(2, b"old tags", length(1), string(b"a")),
    key(0, b"after", string(b"v")),
)


def test_all_unsupported_types_are_counted():
    """All types are named with the number of their keys and the first key; an expired key is not counted."""
    core, summary = read(MIXED)
    assert [len(core.databases[db]) for db in (0, 3)] == [1, 1]
    assert (summary.keys, summary.expired, summary.left_out.total) == (2, 1, 3)
    assert summary.left_out.offset == MIXED.index(b"\x0e\4jobs")
    wanted = "lists: 2 (first: key 'jobs' of database 0); sets: 1 (first: key 'tags' of database 3)"
    assert str(summary.left_out) == wanted


def test_damage_after_an_unsupported_type_is_an_error():
    """A file with an unsupported type is read to its end: damage after it is an error."""
    for wrong in (MIXED[:-12], MIXED[:-9] + b"?" + MIXED[-8:]):
        with pytest.raises(DamagedError):
            read(wrong)


def test_errors_of_files():
    """Unknown types or codes, a newer version, a missing database and a repeated key are errors."""
    text = key(0, b"k", string(b"v"))
    for data, says in (
        (file_of(key(99, b"k", b"???")), "key 'k' of database 0: a value of type 99 is not supported"),
        (file_of(key(22, b"k", b"???")), "type 22"),
        (file_of(key(24, b"k"), magic=b"VALKEY080"), "type 24"),
        (file_of(b"\xf1"), "code 241"),
        (file_of(magic=b"REDIS0015"), "version 15"),
        (file_of(magic=b"REDIS0008"), "version 8"),
        (file_of(magic=b"VALKEY081"), "version 81"),
        (file_of(magic=b"REDIS9999"), "version 9999"),
        (b"RDB" + bytes(20), "not an RDB file"),
        (b"REDIS", "ends too early"),
        (file_of(b"\xfe" + length(16)), "a database 16, but 'databases' is 16"),
        (file_of(text, text), "key 'k' of database 0: the key occurs twice"),
        (file_of(key(4, b"k", length(0))), "without elements"),
    ):
        with pytest.raises(DamagedError, match=says):
            read(data)


def test_a_file_without_a_checksum_is_read():
    """A checksum of zero (rdbchecksum no) is accepted."""
    body = file_of(key(0, b"k", string(b"v")))[:-8]
    _, summary = read(body + bytes(8))
    assert (summary.keys, summary.has_sum) == (1, False)


def test_a_changed_byte_anywhere_is_an_error():
    """In a file with a checksum, every changed byte and every truncation is an error."""
    data = file_of(key(0, b"k", string(b"v")), b"\xfc" + struct.pack("<q", NOW + 9), key(0, b"l", string(b"w" * 30)))
    for at in range(len(data)):
        for wrong in (data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :], data[:at]):
            with pytest.raises(DamagedError) as caught:
                read(wrong)
            assert 0 <= caught.value.offset <= len(data)


def test_mutated_files():
    """A mutated file is an error, or the whole file is accepted and can be written again (``make fuzz`` tries more)."""
    files = samples()
    outcomes = [accepts(mutate(files, 1, number)) for number in range(1500)]
    assert outcomes.count(True) > 20
    assert outcomes.count(False) > 500
