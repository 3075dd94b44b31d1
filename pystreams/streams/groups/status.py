"""The status of a consumer group, judged as Burrow judges Kafka's: by how position and lag change over a time.

    ok        nothing is left to deliver or acknowledge, or the group gets on
    warning   the group gets on, but its lag grew at every look
    stop      there is something to read, and no consumer has called for longer than the limit
    stall     consumers call, but the position stays where it is although there is something to read; or what they have
              been given has not been acknowledged for longer than the limit; or the position is beyond the stream's
              end, so that entries are never delivered
    rewind    the position went back

One look is enough for ok, stop and stall; warning and rewind need several. Pure: plain numbers in, a word out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from streamwire.stream_id import StreamId

#: How long a group may do nothing before that counts.
LIMIT_MS = 60_000


class Status(StrEnum):
    """The words of the table above."""

    OK = "ok"
    WARNING = "warning"
    STOP = "stop"
    STALL = "stall"
    REWIND = "rewind"


#: What the worst of several is chosen by.
SEVERITY = {Status.OK: 0, Status.WARNING: 1, Status.REWIND: 2, Status.STALL: 3, Status.STOP: 4}

STYLES = {
    Status.OK.value: "green",
    Status.WARNING.value: "yellow",
    Status.STOP.value: "bold red",
    Status.STALL.value: "red",
    Status.REWIND.value: "magenta",
}


@dataclass(frozen=True)
class Sample:
    """One look at a group. `at`: milliseconds since 1970.

    `lag`: entries that are not delivered. `behind_ms`: the age of the first of them. `pending`: entries that are not
    acknowledged; `oldest_idle_ms`: for how long the first of them was left alone. `idle_ms`: since when no consumer has
    called; None without consumers.
    `is_stranded`: the position is beyond the end of a stream with undelivered entries. All but `at` and `position` may
    be unknown (None).
    """

    at: int
    position: StreamId
    lag: int | None
    behind_ms: int | None
    pending: int
    oldest_idle_ms: int | None
    idle_ms: int | None
    is_stranded: bool = False


def judge(samples: Sequence[Sample], limit_ms: int = LIMIT_MS) -> Status:
    """Return the status that these looks at a group show, the last one being now. There is at least one."""
    now = samples[-1]
    if any(later.position < earlier.position for earlier, later in pairwise(samples)):
        return Status.REWIND
    behind = now.lag is None or now.lag > 0
    if not behind and not now.pending:
        return Status.OK
    silent = now.idle_ms is None or now.idle_ms > limit_ms
    waiting = behind and (now.behind_ms is None or now.behind_ms > limit_ms)
    unacknowledged = now.pending > 0 and (now.oldest_idle_ms or 0) > limit_ms
    if silent and (now.is_stranded or waiting or unacknowledged):
        return Status.STOP
    if unacknowledged or now.is_stranded:
        return Status.STALL
    if waiting and now.at - samples[0].at >= limit_ms and now.position == samples[0].position:
        return Status.STALL
    if behind and len(samples) > 2 and _grows([sample.lag for sample in samples]):
        return Status.WARNING
    return Status.OK


def _grows(lags: Sequence[int | None]) -> bool:
    """Return whether each lag is larger than the one before."""
    known = [lag for lag in lags if lag is not None]
    return len(known) == len(lags) and all(a < b for a, b in pairwise(known))
