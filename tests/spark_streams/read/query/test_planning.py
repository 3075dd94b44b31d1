"""Shares, ranges and tasks of a batch: limits are exact, shares are fair, and ranges are disjoint and complete."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.config.read import LimitOptions
from spark_streams.read.query import planning
from streamclient.streams.states import Range
from streamwire.stream_id import ZERO

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
