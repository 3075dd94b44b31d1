"""The keyspace: scans miss nothing, expiry is exact, and all components that need changes are notified."""

from __future__ import annotations

import itertools
import weakref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.commands.data import hashes
from engine.core.keyspace.key_table import KeyTable
from engine.core.protocol import pace
from tests.harness.replay import NOW_US, new_core

NAMES = st.sampled_from([b"n%d" % number for number in range(40)])


def test_no_dictionary_has_many_of_the_keys():
    """Keys are distributed evenly, so that the dictionary that grows has a small share of them."""
    table = KeyTable()
    for number in range(64_000):
        table.add(b"key:%d" % number, number)
    assert sum(map(len, table.slots)) == 64_000
    assert max(map(len, table.slots)) < 2000


@pytest.fixture
def small_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan hashes of any size in steps."""
    monkeypatch.setattr(hashes, "SCANNED_AT_ONCE", 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from([b"SET", b"DEL", b"HSET", b"HDEL"]), NAMES), max_size=120), st.integers(1, 5))
def test_scan_and_hscan_return_everything_that_stays(small_scans, changes, count):
    """SCAN and HSCAN return the keys and fields that stay, while others come and go between their steps."""
    core = new_core()
    session = core.open_session(NOW_US)

    def run(*words: bytes):
        return core.execute(session, list(words), NOW_US)

    steady = [b"s%d" % number for number in range(12)]
    for name in steady:
        run(b"SET", name, b"1")
        run(b"HSET", b"hash", name, b"1")
    met, fields = set(), set()
    pending = iter(changes)
    cursors = [b"0", b"0"]
    going = [True, True]
    while any(going):
        if going[0]:
            cursors[0], names = run(b"SCAN", cursors[0], b"COUNT", b"%d" % count)
            met |= set(names)
            going[0] = cursors[0] != b"0"
        if going[1]:
            cursors[1], words = run(b"HSCAN", b"hash", cursors[1], b"COUNT", b"%d" % count)
            fields |= set(words[::2])
            going[1] = cursors[1] != b"0"
        for name, word in (change for change in [next(pending, None), next(pending, None)] if change):
            key = [b"hash"] if name[:1] == b"H" else []
            run(name, *key, word, *([b"v"] if name.endswith(b"SET") else []))
    assert set(steady) <= met
    assert set(steady) <= fields


@pytest.fixture
def core():
    return new_core()


@pytest.mark.parametrize(
    "end", ["DEL k s", "UNLINK k s", "SET k string", "RENAME other k", "PEXPIRE k 0", "GET k", "FLUSHALL", "MOVE k 1"]
)
def test_large_deleted_values_are_freed_in_steps(monkeypatch, core, end):
    """Fields and groups of values that are deleted, replaced or expired are freed some at a time; a moved one is kept.

    Small values that are deleted with them do not make a step longer.
    """
    monkeypatch.setattr(pace, "FREED", 5)
    session = core.open_session(NOW_US)
    groups = [f"XGROUP CREATE s g{number} 0 MKSTREAM" for number in range(20)]
    others = [f"SET other-{number} v" for number in range(50)]
    for command in ("SET other value", "HSET k 1 a 2 b 3 c 4 d 5 e 6 f 7 g", *groups, *others, "PEXPIRE k 10"):
        core.execute(session, command.encode().split(), NOW_US)
    value, groups = core.databases[0].get(b"k"), core.databases[0].get(b"s").groups
    sizes = [(7, 20)]
    core.execute(session, end.encode().split(), NOW_US + 9_999 + (end == "GET k"))
    assert (len(value), len(groups)) == sizes[0]
    while core.changes.free(5):
        sizes.append((len(value), len(groups)))
    sizes.append((len(value), len(groups)))
    assert max(sum(before) - sum(after) for before, after in itertools.pairwise(sizes)) <= 5
    both = end in ("DEL k s", "UNLINK k s", "FLUSHALL")
    assert (len(value), len(groups)) == (7 * (end == "MOVE k 1"), 20 * (not both))
    assert core.changes.discarded == []


def test_expired_keys_are_dropped_without_a_lookup(core):
    """expire_due drops due keys that are not accessed, but no key whose deadline was extended or removed."""
    session = core.open_session(NOW_US)
    for key in (b"a", b"b", b"c"):
        core.execute(session, [b"SET", key, b"v", b"PX", b"10"], NOW_US)
    core.execute(session, [b"PEXPIRE", b"b", b"20"], NOW_US)
    core.execute(session, [b"PERSIST", b"c"], NOW_US)
    assert core.expire_due(NOW_US + 9_999) == 0
    assert core.expire_due(NOW_US + 10_000) == 1
    assert core.expire_due(NOW_US + 20_000) == 1
    assert len(core.databases[0]) == 1


def test_a_stream_with_idempotent_producers_is_freed_with_its_key(core):
    """A stream with idempotent producers is freed when its key is overwritten: no table of producers keeps it."""
    session = core.open_session(NOW_US)
    core.execute(session, b"XADD s IDMP producer iid * f v".split(), NOW_US)
    stream = weakref.ref(core.databases[0].get(b"s"))
    core.execute(session, b"SET s string".split(), NOW_US)
    assert stream() is None


@pytest.mark.parametrize("words", [b"COPY s copy", b"RESTORE copy 0 DUMP"])
def test_copies_expire_idempotent_ids(words):
    """Streams made by COPY and RESTORE expire idempotent IDs like the original."""
    core = new_core()
    session = core.open_session(NOW_US)
    core.execute(session, b"XADD s IDMP producer iid * f v".split(), NOW_US)
    dump = core.execute(session, b"DUMP s".split(), NOW_US)
    core.execute(session, [dump if word == b"DUMP" else word for word in words.split()], NOW_US)
    tracked = [core.databases[0].get(key).producers for key in (b"s", b"copy")]
    assert [producers.tracked() for producers in tracked] == [1, 1]
    core.tick(NOW_US + 1_000_000 * (core.config.integer("stream-idmp-duration") + 1))
    assert [producers.tracked() for producers in tracked] == [0, 0]
