"""Keys in the order of their deadlines, against a plain dictionary; and tables that are freed in steps."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st

from engine.core.keyspace import changes as changes_module
from engine.core.keyspace import deadlines as deadlines_module
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.deadlines import Deadlines
from tests.harness.replay import NOW_US, check_replay, new_core

KEYS = st.integers(0, 9).map(lambda number: b"k%d" % number)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), KEYS, st.integers(1, 30)),
            st.tuples(st.just("remove"), KEYS, st.just(0)),
            st.tuples(st.just("due"), st.just(b""), st.integers(0, 30)),
        ),
        max_size=120,
    )
)
def test_keys_expire_in_order_however_often_deadlines_change(steps):
    """After any changes exactly the keys whose deadline has passed are due, and the next deadline is never too late."""
    small, deadlines_module._SMALL = deadlines_module._SMALL, 2
    try:
        by_key: dict[bytes, int] = {}
        deadlines = Deadlines(by_key)
        for action, key, number in steps:
            if action == "put":
                deadlines.put(key, number)
            elif action == "remove":
                by_key.pop(key, None)
            else:
                due = deadlines.pop_due(number, 10_000)
                assert set(due) == {name for name, deadline in by_key.items() if deadline <= number}
                for name in due:
                    by_key.pop(name, None)
            assert deadlines.due(15) == {name for name, deadline in by_key.items() if deadline <= 15}
            earliest = deadlines.next()
            assert not by_key or (earliest is not None and earliest <= min(by_key.values()))
    finally:
        deadlines_module._SMALL = small


def test_changed_deadlines_do_not_pile_up():
    """However often deadlines are changed, removed or set to one time, fewer than six are stored per key."""
    by_key: dict[bytes, int] = {}
    deadlines = Deadlines(by_key)
    for turn in range(20):
        for number in range(1000):
            if turn % 2:
                by_key.pop(b"%d" % number)
            deadlines.put(b"%d" % number, 7 if turn < 10 else 1000 * turn + number)
            assert sum(map(len, deadlines.tables())) < 6000


def test_stored_deadlines_are_not_tracked_by_the_garbage_collector() -> None:
    """The heap of deadlines contains only objects that the garbage collector does not have to visit."""
    deadlines = Deadlines.of({b"a": 1, b"b": 2})
    deadlines.put(b"c", -3)
    deadlines.put_all([b"d", b"e"], 4)
    assert deadlines.next() == -3
    heap, _ = deadlines.tables()
    assert (len(heap), any(map(gc.is_tracked, heap))) == (5, False)


def test_large_tables_are_freed_in_steps():
    """Small discarded tables are freed at once; of large ones, each call frees a limited number of elements."""
    changes = Changes(lambda n: 0)
    large = dict.fromkeys(range(changes_module._LARGE + 5))
    others = list(range(changes_module._LARGE + 1))
    changes.discard({1: 2}, others[: changes_module._LARGE // 2])
    assert not changes.discarded
    changes.discard(large, others)
    assert changes.discarded == [large, others]
    assert changes.free(changes_module._LARGE)
    assert len(others) == 1
    assert changes.free(11)
    assert (others, len(large)) == ([], changes_module._LARGE - 5)
    assert not changes.free(changes_module._LARGE)
    assert not changes.discarded


def test_many_fields_expire_in_steps() -> None:
    """However many hash fields are due, each call removes the requested number, and all are logged."""
    core = new_core()
    session = core.open_session(NOW_US)
    names = [b"f%d" % number for number in range(1000)]
    for key in (b"a", b"b"):
        core.execute(session, [b"HSET", key, *(word for name in names for word in (name, b"v"))], NOW_US)
        core.execute(session, [b"HPEXPIRE", key, b"10", b"FIELDS", b"990", *names[:990]], NOW_US)
    core.execute(session, b"HSET late f v".split(), NOW_US)
    core.execute(session, b"HPEXPIRE late 20 FIELDS 1 f".split(), NOW_US)
    assert core.changes.next_expiry == NOW_US // 1000 + 10
    later = NOW_US + 10_000
    counts = []
    while core.changes.next_expiry <= later // 1000:
        counts.append(core.expire_due(later, 100))
    assert (max(counts), sum(counts) >= 1980, len(counts) < 25) == (100, True, True)
    assert [len(core.databases[0].get(key)) for key in (b"a", b"b", b"late")] == [10, 10, 1]
    assert core.databases[0].with_expiring_fields() == 1
    core.expire_due(NOW_US + 20_000)
    assert b"late" not in core.databases[0]
    check_replay(core, NOW_US + 20_000)


def test_replaced_deadlines_of_fields_are_skipped_in_steps() -> None:
    """A hash whose fields all got another deadline does not delay other hashes when the old deadlines are reached."""
    core = new_core()
    session = core.open_session(NOW_US)
    names = [b"f%d" % number for number in range(1000)]
    core.execute(session, [b"HSET", b"a", *(word for name in names for word in (name, b"v"))], NOW_US)
    for milliseconds in (b"10", b"9000"):
        core.execute(session, [b"HPEXPIRE", b"a", milliseconds, b"FIELDS", b"1000", *names], NOW_US)
    fields = core.databases[0].peek(b"a")
    for _ in range(10):
        before = sum(map(len, fields.tables()))
        assert core.expire_due(NOW_US + 10_000, 100) == 100
        assert sum(map(len, fields.tables())) == before - 100
    assert core.expire_due(NOW_US + 10_000, 100) <= 1
    assert core.changes.next_expiry == NOW_US // 1000 + 9000
    assert len(fields) == 1000


def test_many_keys_get_one_deadline() -> None:
    """Setting one deadline for many keys at once equals setting it one by one, for any earlier deadlines."""
    for before in (0, 10, 300, 3000):
        keys = [b"%d" % number for number in range(200)]
        taken = []
        for at_once in (True, False):
            by_key: dict[bytes, int] = {}
            deadlines = Deadlines(by_key)
            for number in range(before):
                deadlines.put(b"%d" % (number % 400), number)
            if at_once:
                deadlines.put_all(keys, 250)
            else:
                for key in keys:
                    deadlines.put(key, 250)
            for now in (100, 250, 5000):
                due = deadlines.due(now)
                assert due == set(deadlines.pop_due(now, 10_000))
                for key in due:
                    del by_key[key]
                taken.append(due)
            assert (by_key, deadlines.next()) == ({}, None)
        assert taken[:3] == taken[3:]
