"""Keys in the order of their deadlines, against a plain dictionary; and tables that are freed in steps."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st

from engine.core.keyspace import deadlines as deadlines_module
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.deadlines import Deadlines
from engine.core.protocol import pace

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
    deadlines = Deadlines({})
    for key, deadline in {b"a": 1, b"b": 2, b"c": -3}.items():
        deadlines.put(key, deadline)
    assert deadlines.next() == -3
    heap, _ = deadlines.tables()
    assert (len(heap), any(map(gc.is_tracked, heap))) == (3, False)


def test_large_tables_are_freed_in_steps():
    """Small discarded tables are freed at once; of large ones, each call frees a limited number of elements."""
    changes = Changes()
    large = dict.fromkeys(range(pace.FREED + 5))
    others = list(range(pace.FREED + 1))
    changes.discard({1: 2}, others[: pace.FREED // 2])
    assert not changes.discarded
    changes.discard(large, others)
    assert changes.discarded == [large, others]
    assert changes.free(pace.FREED)
    assert len(others) == 1
    assert changes.free(11)
    assert (others, len(large)) == ([], pace.FREED - 5)
    assert not changes.free(pace.FREED)
    assert not changes.discarded
