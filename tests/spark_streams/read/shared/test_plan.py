"""Plans of shared batches, from a table: the entries that each consumer may read and claim, and their tasks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streams.config.read import LimitOptions
from spark_streams.read.query.offsets import Offsets, SharedBatch, Source
from spark_streams.read.shared.source import plan_shared
from streamwire.stream_id import ZERO


def planned(lag: dict[str, int], claims: dict[str, int], starts: Any = None, number: int = 7, **limits: Any) -> Offsets:
    options = LimitOptions(**limits)
    return plan_shared(number, 3, lag, claims, options, source=Source("shared"), starts=starts, cores=8)


def batch_of(end: Offsets) -> SharedBatch:
    assert end.shared is not None
    assert end.shared.since == 3
    return end.shared


@pytest.mark.parametrize(
    ("lag", "claims", "limits", "reads", "tasks"),
    [
        ({"a": 5}, {}, {}, {"a": (5,)}, ()),
        ({"a": 5, "b": 0}, {}, {}, {"a": (5,)}, ()),
        ({"a": 5, "b": 7}, {}, {}, {"a": (5,), "b": (7,)}, ()),
        ({"a": 0}, {"a": 4}, {}, {"a": (0,)}, ()),
        ({"a": 5}, {"a": 4}, {}, {"a": (5,)}, ()),
        ({"a": 5}, {"b": 4}, {}, {"a": (5,), "b": (0,)}, ()),
        ({"a": 9}, {}, {"max_entries": 4}, {"a": (4,)}, ()),
        ({"a": 9, "b": 27}, {}, {"max_entries": 4}, {"a": (1,), "b": (3,)}, ()),
        ({"a": 9}, {"a": 3}, {"max_entries": 4}, {"a": (1,)}, ()),
        ({"a": 9}, {"a": 4}, {"max_entries": 4}, {"a": (0,)}, ()),
        ({"a": 9, "b": 9}, {}, {"max_entries": 1, "number": 5}, {"b": (1,)}, ()),
        ({"a": 9, "b": 9}, {}, {"max_entries": 1, "number": 6}, {"a": (1,)}, ()),
        ({"a": 9}, {}, {"min_partitions": 2}, {"a": (4, 5)}, ()),
        ({"a": 9}, {}, {"max_per_partition": 4}, {"a": (3, 3, 3)}, ()),
        ({"a": 10}, {}, {"min_partitions": 3}, {"a": (3, 3, 4)}, ()),
        ({"a": 2}, {}, {"min_partitions": 4}, {"a": (1, 1)}, ()),
        ({"a": 250_000}, {}, {}, {"a": (100_000,)}, ()),
        ({"a": 250_000}, {}, {"starts": {"a": ZERO}}, {"a": (83_333, 83_333, 83_334)}, ()),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, {}, {"max_partitions": 2}, dict.fromkeys("abcd", (1,)), (2, 2)),
        ({"a": 1, "b": 1, "c": 1}, {"a": 900}, {"max_partitions": 2}, dict.fromkeys("abc", (1,)), (1, 2)),
    ],
)
def test_what_each_consumer_may_read(
    lag: dict[str, int], claims: dict[str, int], limits: dict[str, Any], reads: Any, tasks: tuple[int, ...]
) -> None:
    """New entries are divided by limits and partitions; claimable entries come first and count against the limit."""
    end = planned(lag, claims, **limits)
    batch = batch_of(end)
    assert (batch.reads, batch.claims, end.tasks, batch.is_empty) == (reads, claims, tasks, False)


COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 500))


@given(COUNTS, COUNTS, st.integers(1, 600), st.integers(1, 9), st.integers(1, 100))
def test_a_shared_batch_keeps_its_limits(
    lag: dict[str, int], claims: dict[str, int], limit: int, least: int, most: int
) -> None:
    """No batch exceeds its limit or the entries that exist, and no consumer exceeds its maximum. A batch without new
    and without claimable entries is marked as empty.
    """
    claims = {stream: count for stream, count in claims.items() if count}
    end = planned(lag, claims, max_entries=limit, min_partitions=least, max_per_partition=most)
    batch = batch_of(end)
    reads = {stream: sum(counts) for stream, counts in batch.reads.items()}
    claimed = sum(batch.claims.values())
    assert claimed == min(limit, sum(claims.values()))
    assert sum(reads.values()) == min(limit - claimed, sum(lag.values()))
    assert all(count <= claims[stream] for stream, count in batch.claims.items())
    assert all(count <= lag.get(stream, 0) for stream, count in reads.items())
    assert all(count <= most for counts in batch.reads.values() for count in counts)
    assert batch.claims.keys() <= batch.reads.keys()
    assert batch.is_empty == (not claims and not any(lag.values()))
