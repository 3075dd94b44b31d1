"""Shares, ranges and tasks of a batch: limits are exact, shares are fair, and ranges are disjoint and complete."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.config.read import LimitOptions
from spark_streams.read.query import planning
from streamclient.streams.counting import Entries
from streamclient.streams.states import Range
from streamwire.stream_id import ZERO, StreamId

unhurried = settings(deadline=None)
BACKLOGS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1000), max_size=8)


@unhurried
@given(st.integers(1, 2000), BACKLOGS, st.integers(0, 50))
def test_shares_add_up(limit: int, backlog: dict[str, int], turn: int) -> None:
    """Shares add up to the limit or to the whole backlog, and no share exceeds its stream's backlog."""
    shares = planning.shares(limit, backlog, turn)
    assert sum(shares.values()) == min(limit, sum(backlog.values()))
    assert all(0 < share <= backlog[name] for name, share in shares.items())


@unhurried
@given(st.integers(1, 2000), BACKLOGS)
def test_no_stream_starves(limit: int, backlog: dict[str, int]) -> None:
    """Each waiting stream gets an entry if the limit allows; otherwise successive batches rotate
    through the streams.
    """
    waiting = {name for name, count in backlog.items() if count}
    if limit >= len(waiting):
        assert set(planning.shares(limit, backlog)) == waiting
    else:
        assert set().union(*(planning.shares(limit, backlog, turn) for turn in range(len(waiting)))) == waiting


@unhurried
@given(st.integers(1, 2000), BACKLOGS)
def test_shares_are_in_proportion(limit: int, backlog: dict[str, int]) -> None:
    """Shares are proportional to the backlogs, except for rounding and the one entry guaranteed to each stream."""
    total = sum(backlog.values())
    if total > limit >= len(backlog):
        for name, share in planning.shares(limit, backlog).items():
            assert abs(share - limit * backlog[name] / total) <= len(backlog) + 1


@st.composite
def streams(draw: st.DrawFn) -> dict[str, list[StreamId]]:
    found = {}
    for name in draw(st.sets(st.sampled_from("abcde"), max_size=5)):
        ids = draw(st.sets(st.builds(StreamId, st.integers(1, 300), st.integers(0, 2)), max_size=60))
        found[name] = sorted(ids)
    return found


@unhurried
@given(streams(), st.integers(1, 120), st.data())
def test_a_limit_is_met_exactly(entries: dict[str, list[StreamId]], limit: int, data: st.DataObject) -> None:
    """A batch has exactly `limit` entries, or all entries, however wrong the estimated backlogs are."""
    ends = {name: (ids[-1] if ids else ZERO) for name, ids in entries.items()}
    starts = {}
    for name, ids in entries.items():
        starts[name] = ids[data.draw(st.integers(0, len(ids) - 1))] if ids and data.draw(st.booleans()) else ZERO
    guesses = {name: data.draw(st.integers(1, 200)) for name in entries}
    calls = 0

    def between(name: str, after: StreamId, upto: StreamId) -> list[StreamId]:
        return entries[name][bisect_right(entries[name], after) : bisect_right(entries[name], upto)]

    def nth(name: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        nonlocal calls
        calls += 1
        ids = between(name, after, upto)
        return (ids[count - 1], count) if len(ids) >= count else (upto, len(ids))

    class Server(Entries):
        def __init__(self) -> None: ...

        def nths(self, asked: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
            return [nth(*request) for request in asked]

    reached, counts = planning.limited(limit, starts, ends, guesses, Server(), data.draw(st.integers(0, 5)))
    taken = sum(len(between(name, starts[name], reached[name])) for name in entries)
    there = sum(len(between(name, starts[name], ends[name])) for name in entries)
    assert counts == {name: len(between(name, starts[name], reached[name])) for name in entries}
    assert taken == min(limit, there)
    assert all(starts[name] <= reached[name] <= max(starts[name], ends[name]) for name in entries)
    assert calls <= 4 * len(entries) + 4


@unhurried
@given(st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted), max_size=3))
def test_ranges_are_disjoint_and_complete(bounds: dict[str, list[int]]) -> None:
    """Every ID between start and end is in exactly one range, and no other ID is in any range."""
    starts = {name: StreamId(low, 0) for name, (low, _) in bounds.items()}
    ends = {name: StreamId(high, 0) for name, (_, high) in bounds.items()}
    parts = planning.ranges(starts, ends)
    for name in bounds:
        for at in (StreamId(ms, 0) for ms in range(11)):
            inside = [part for part in parts if part.stream == name and part.after < at <= part.upto]
            assert len(inside) == (1 if starts[name] < at <= ends[name] else 0)


def test_cuts_make_ranges() -> None:
    """A stream with cuts has one numbered range with its size per cut; a stream without cuts has one range."""
    starts, ends = {"a": ZERO, "b": ZERO}, {"a": StreamId(9, 0), "b": StreamId(1, 0)}
    cuts = {"a": [(StreamId(4, 0), 3), (StreamId(9, 0), None)]}
    assert planning.ranges(starts, ends, cuts, {"b": 5}) == [
        Range("a", ZERO, StreamId(4, 0), 0, 3),
        Range("a", StreamId(4, 0), StreamId(9, 0), 1, None),
        Range("b", ZERO, StreamId(1, 0), 0, 5),
    ]


RANGES = st.lists(
    st.builds(
        Range, st.just("s"), st.just(ZERO), st.just(ZERO), st.just(0), st.one_of(st.none(), st.integers(0, 200_000))
    ),
    max_size=60,
)


@unhurried
@given(RANGES, st.one_of(st.none(), st.integers(1, 20)), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 999)))
def test_ranges_share_tasks(ranges: list[Range], most: int | None, cores: int, entries: int | None) -> None:
    """Every range is in exactly one task, in order, and tasks keep the limits and a maximum size."""
    options = LimitOptions(max_partitions=most, max_per_partition=entries)
    counts = planning.tasks(ranges, options, cores)
    tasks = planning.by_task(ranges, counts)
    assert [part for task in tasks for part in task] == ranges
    assert all(tasks)
    if entries is not None:
        assert all(len(task) == 1 or sum(part.count or 0 for part in task) <= entries for task in tasks)
        return
    if most is not None:
        assert len(tasks) <= most
    if most is None and len(ranges) > 1:
        assert all(len(task) == 1 or sum(part.count or 0 for part in task) <= 400_000 for task in tasks)
        assert len(tasks) == len(ranges) or len(tasks) <= max(
            cores, sum(part.count or 0 for part in ranges) // 100_000 + 1
        )


def test_many_small_ranges_make_few_even_tasks() -> None:
    """A thousand ranges of equal size become one task per core, of nearly equal size."""
    ranges = [Range(f"s{n:04}", ZERO, ZERO, 0, 200) for n in range(1000)]
    counts = planning.tasks(ranges, LimitOptions(), 6)
    assert len(counts) == 6
    assert max(counts) - min(counts) <= 1


@unhurried
@given(BACKLOGS, st.integers(1, 20), st.one_of(st.none(), st.integers(1, 300)))
def test_partitions_keep_minimum_and_maximum(sizes: dict[str, int], least: int, most: int | None) -> None:
    """Every stream with entries has a partition; the minimum number and the maximum size of partitions are kept."""
    parts = planning.parts(sizes, least, most)
    assert set(parts) == {name for name, size in sizes.items() if size}
    assert sum(parts.values()) >= min(least, sum(sizes.values()))
    assert all(1 <= count <= sizes[name] for name, count in parts.items())
    if most is not None:
        assert all(count * most >= sizes[name] for name, count in parts.items())
