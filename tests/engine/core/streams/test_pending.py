"""The pending entries list against a plain dictionary."""

from __future__ import annotations

from array import array
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.core.protocol.ids import U64_MAX
from engine.core.protocol.replies import at_once
from engine.core.streams import pending as pending_module
from engine.core.streams.pending import NOBODY, PendingList

IDS = st.tuples(st.integers(0, 3), st.integers(0, 12)).map(lambda pair: pair[0] << 64 | pair[1])
OWNERS = st.integers(1, 3)
TIMES = st.integers(0, 5)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.sets(IDS, min_size=1, max_size=8), OWNERS, TIMES),
        st.tuples(st.just("put"), IDS, st.integers(0, 3), TIMES, st.integers(0, 4)),
        st.tuples(st.just("remove"), IDS),
        st.tuples(st.just("remove_many"), st.lists(IDS, max_size=12)),
        st.tuples(st.just("remove_range"), IDS, IDS),
        st.tuples(st.just("remove_owner"), OWNERS),
        st.tuples(st.just("copy"), st.booleans()),
    ),
    max_size=30,
)

Model = dict[int, tuple[int, int, int]]


def _step(real: PendingList, model: Model, step: tuple) -> None:
    match step:
        case ("deliver", chosen, owner, time):
            entry_ids = sorted(chosen)
            real.deliver(
                array("Q", [entry_id >> 64 for entry_id in entry_ids]),
                array("Q", [entry_id & U64_MAX for entry_id in entry_ids]),
                owner,
                time,
            )
            model.update(dict.fromkeys(entry_ids, (owner, time, 1)))
        case ("put", entry_id, owner, time, count):
            real.put(entry_id, owner, time, count)
            model[entry_id] = (owner, time, count)
        case ("remove", entry_id):
            assert real.remove(entry_id) == (model.pop(entry_id, None) is not None)
        case ("remove_many", entry_ids):
            removed = set(entry_ids) & model.keys()
            assert real.remove_many(entry_ids) == len(removed)
            for entry_id in removed:
                del model[entry_id]
        case ("remove_range", low, high):
            removed = [entry_id for entry_id in model if low <= entry_id <= high]
            assert real.remove_range(low, high) == len(removed)
            for entry_id in removed:
                del model[entry_id]
        case ("remove_owner", owner):
            removed = [entry_id for entry_id, record in model.items() if record[0] == owner]
            assert at_once(real.remove_owner(owner)) == len(removed)
            for entry_id in removed:
                del model[entry_id]


def _rows(records) -> list[tuple[int, int, int, int]]:
    return [(b.id_at(i), b.owners[i], b.times[i], b.counts[i]) for b, i in records]


@given(STEPS, IDS, IDS, OWNERS, TIMES, TIMES)
def test_equals_a_dictionary(steps, low, high, owner, before, after):
    """After any changes the list equals a dictionary of the same records, by range, by consumer and by time."""
    sizes = pending_module.BLOCK, pending_module._MANY
    pending_module.BLOCK, pending_module._MANY = 4, 3
    try:
        real, model = PendingList(), {}
        others: list[tuple[PendingList, Model]] = []
        for step in steps:
            if step[0] == "copy":
                copy = real.copy()
                real, other = (copy, real) if step[1] else (real, copy)
                others.append((other, model.copy()))
                continue
            _step(real, model, step)
            assert len(real) == len(model)
        expected = [(entry_id, *model[entry_id]) for entry_id in sorted(model)]
        assert _rows(real.records(0, 1 << 70)) == expected
        assert _rows(real.records(low, high)) == [row for row in expected if low <= row[0] <= high]
        assert _rows(real.records(0, 1 << 70, owner)) == [row for row in expected if row[1] == owner]
        by_time = sorted(expected, key=lambda row: (row[2], row[0]))
        assert list(real.oldest(before)) == [row[0] for row in by_time if row[2] <= before and row[1] != NOBODY]
        assert real.per_owner == dict(Counter(row[1] for row in expected))
        assert real.oldest_time(after) == min((row[2] for row in expected if row[2] > after), default=None)
        for row in expected:
            record = real.find(row[0])
            assert record is not None
            assert _rows([record]) == [row]
        for block, _, _ in real.blocks(0, 1 << 70):
            assert block.count_matching(owner, before) == len(block.matching(owner, before))
        for other, then in others:
            # Changes of one copy do not appear in the other copy.
            assert _rows(other.records(0, 1 << 70)) == [(entry_id, *then[entry_id]) for entry_id in sorted(then)]
    finally:
        pending_module.BLOCK, pending_module._MANY = sizes
