"""The data structure of sorted sets, against a dictionary that is sorted for each query."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.keyspace import order, sorted_set
from engine.core.keyspace.frozen import Freezing
from engine.core.keyspace.order import Order, block_of
from engine.core.keyspace.sorted_set import SortedSet, SortedSetLimits, in_order

LIMITS = SortedSetLimits(8, 4)
SCORES = st.sampled_from([-math.inf, -2.5, -0.0, 0.0, 1.0, 1.0, 3.0, 1e300, math.inf])
MEMBERS = st.sampled_from([b"", b"a", b"ab", b"b", b"c", b"long one", *(b"%d" % number for number in range(20))])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), MEMBERS, SCORES),
        st.tuples(st.just("remove"), MEMBERS),
        st.tuples(st.just("cut"), st.integers(0, 6), st.integers(0, 4)),
        st.just(("copy",)),
        st.just(("order",)),
    ),
    max_size=80,
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks of a few members, and order sets of few members."""
    monkeypatch.setattr(sorted_set, "_ORDERED", 5)
    monkeypatch.setattr(sorted_set, "_SORTED_AT_ONCE", 6)
    monkeypatch.setattr(order, "_LARGEST", 6)
    monkeypatch.setattr(order, "_SMALLEST", 2)


def check(order: Order) -> None:
    """Check the sizes of the blocks, their last pairs and the ranks of their first pairs."""
    sizes = [len(members) for _, members in order.blocks]
    assert sizes == [len(scores) for scores, _ in order.blocks]
    assert sum(sizes) == len(order)
    assert all(0 < size <= 6 for size in sizes)
    assert list(zip(*order._lasts, strict=True)) == [(scores[-1], members[-1]) for scores, members in order.blocks]
    assert order._starts is None or list(order._starts) == [sum(sizes[:number]) for number in range(len(sizes) + 1)]


@settings(deadline=None, max_examples=150)
@given(steps=STEPS)
def test_a_sorted_set_equals_a_sorted_dictionary(steps: list[Any]) -> None:
    """After any additions, removals and cuts, also in a copy, ranks, counts and order are those of the sorted pairs."""
    real, plain = SortedSet(), dict[bytes, float]()
    for step in steps:
        pairs = sorted((score, member) for member, score in plain.items())
        if step[0] == "put":
            _, member, score = step
            if plain.get(member) != score:
                assert real.put(member, score, LIMITS) == (member not in plain)
                plain[member] = score
        elif step[0] == "remove":
            assert real.remove(step[1]) == (plain.pop(step[1], None) is not None)
        elif step[0] == "cut":
            start, stop = min(step[1], len(plain)), min(step[1] + step[2], len(plain))
            assert real.cut(start, stop) == pairs[start:stop]
            for _, member in pairs[start:stop]:
                del plain[member]
        elif step[0] == "copy":
            real = real.copy()
        else:
            assert list(real.order) == pairs
            assert [real.order[rank] for rank in range(len(pairs))] == pairs
    pairs = sorted((score, member) for member, score in plain.items())
    assert (list(real.order), dict(real)) == (pairs, plain)
    assert [real.rank(member) for _, member in pairs] == list(range(len(pairs)))
    for bound in (-math.inf, -1.0, 0.0, 1.0, 2.0, math.inf):
        assert real.below(bound) == sum(score < bound for score, _ in pairs)
        assert real.up_to(bound) == sum(score <= bound for score, _ in pairs)
    assert list(reversed(real.order)) == pairs[::-1]
    assert all(real.order.between(start, len(pairs) - 1) == pairs[start:-1] for start in range(len(pairs)))
    assert len(real.order) == len(real)
    check(real.order)


@settings(deadline=None, max_examples=50)
@given(scores=st.dictionaries(MEMBERS, SCORES))
def test_blocks_are_ordered_in_steps(scores: dict[bytes, float]) -> None:
    """Blocks that are built in steps are in order, and members can be added and removed."""
    making, given_scores = in_order(dict(scores)), dict(scores)
    while True:
        try:
            next(making)
        except StopIteration as end:
            blocks = end.value
            break
    made = Order.of_blocks(list(map(block_of, blocks)))
    assert list(made) == sorted((score, member) for member, score in given_scores.items())
    made.add(2.0, b"new")
    check(made)
    assert made[made.rank(2.0, b"new")] == (2.0, b"new")


@pytest.mark.parametrize("size", [3, 8, 40])
def test_a_frozen_copy_has_the_members_before_a_range_was_cut(size: int) -> None:
    """A range that is removed while the set is being frozen is part of the frozen copy."""
    pairs = [(float(number), b"%d" % number) for number in range(size)]
    real = SortedSet((member, score) for score, member in pairs)
    freezing = Freezing(real)
    real.cut(0, 2)
    frozen = freezing.value
    assert isinstance(frozen, SortedSet)
    assert list(frozen.order) == pairs


def test_a_set_stays_big_and_a_small_set_has_no_negative_zero() -> None:
    """A member that is too long makes a set big permanently; a small set stores a score of -0 as 0."""
    scores = SortedSet()
    scores.put(b"a", -0.0, LIMITS)
    assert (str(scores[b"a"]), scores.big) == ("0.0", False)
    scores.put(b"a long one", 1.0, LIMITS)
    scores.remove(b"a long one")
    scores.put(b"b", -0.0, LIMITS)
    assert (str(scores[b"b"]), scores.big) == ("-0.0", True)
    assert scores.copy().big
