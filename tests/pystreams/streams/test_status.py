"""The status of a group, computed from samples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pystreams.streams.group_states import Consumer, Group, Status, judge
from pystreams.streams.inventory import Stream
from streamwire.stream_id import StreamId

STREAM = Stream(
    last_id=StreamId(9, 0), length=9, first_id=StreamId(1, 0), group=None, name=b"s", last_entry=None, groups=1
)


def sample(
    at: int = 0,
    position: int = 5,
    lag: int | None = 0,
    behind: int | None = 0,
    pending: int = 0,
    oldest: int = 0,
    idle: int | None = 0,
) -> Group:
    """Return a group `at` seconds after the first sample. Ages are in seconds."""
    consumers = () if idle is None else (Consumer(b"c", pending, idle * 1000, None),)
    behind_ms = None if behind is None else behind * 1000
    state = Group(STREAM, b"g", StreamId(position, 0), lag, True, None, pending, len(consumers), at * 1000, behind_ms)
    return replace(state, oldest_idle_ms=oldest * 1000, consumers=consumers)


@pytest.mark.parametrize(
    ("samples", "status"),
    [
        ([sample()], Status.OK),
        ([sample(idle=None)], Status.OK),
        ([sample(lag=10, behind=5, idle=3)], Status.OK),
        ([sample(lag=10, behind=300, idle=3)], Status.OK),
        ([sample(lag=10, behind=300, idle=None)], Status.STOP),
        ([sample(lag=10, behind=300, idle=90)], Status.STOP),
        ([sample(lag=None, behind=None, idle=90)], Status.STOP),
        ([sample(lag=10, behind=5, idle=90)], Status.OK),
        ([sample(pending=3, oldest=90, idle=2)], Status.STALL),
        ([sample(pending=3, oldest=90, idle=90)], Status.STOP),
        ([sample(pending=3, oldest=5, idle=2)], Status.OK),
        ([sample(0, lag=10, behind=100), sample(60, lag=10, behind=160)], Status.STALL),
        ([sample(0, lag=10, behind=100), sample(60, position=6, lag=10, behind=160)], Status.OK),
        ([sample(0, lag=10, behind=100), sample(30, lag=10, behind=130)], Status.OK),
        ([sample(0, position=n, lag=n, behind=1) for n in (1, 2, 3)], Status.WARNING),
        ([sample(0, position=n, lag=lag, behind=1) for n, lag in ((1, 5), (2, 6), (3, 6))], Status.OK),
        ([sample(0, position=n, lag=n, behind=1) for n in (1, 2)], Status.OK),
        ([sample(0, position=9), sample(5, position=4, lag=5, behind=9)], Status.REWIND),
        ([sample(0, position=9), sample(5, position=4), sample(10, position=4)], Status.REWIND),
    ],
)
def test_the_table_of_statuses(samples: list[Group], status: Status) -> None:
    """Each history of samples in the table has the expected status."""
    *earlier, now = samples
    assert judge(now, [each.sample for each in earlier]) == status
