"""Status of a consumer group, judged by changes of position and lag over a period, as Burrow does for Kafka.

    ok        no other status applies: no entry has been pending for too long, and the group advances or keeps up
    warning   the lag grew at every sample, and no status below applies
    stop      no consumer has called for longer than the limit, although entries wait for delivery or acknowledgement
    stall     consumers call, but undelivered entries wait and the position has not changed for longer than the limit;
              or delivered entries have not been acknowledged for longer than the limit; or the position is beyond the
              stream's end, so that entries are never delivered
    rewind    the position went back

Warning, rewind, and stall by an unchanged position need several samples. All other statuses need one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from streamwire.stream_id import StreamId

#: The limit: time in milliseconds after which waiting entries, silent consumers and an unchanged position are problems.
LIMIT_MS = 60_000


class Status(StrEnum):
    """Status of a group, as described above."""

    OK = "ok"
    WARNING = "warning"
    STOP = "stop"
    STALL = "stall"
    REWIND = "rewind"


#: Order from best to worst.
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
    """One sample of a group. `at`: milliseconds since 1970.

    `lag`: number of undelivered entries. `behind_ms`: age of the first undelivered entry. `pending`: number of
    unacknowledged entries; `oldest_idle_ms`: idle time of the first unacknowledged entry. `idle_ms`: time since the
    last call of any consumer; None without consumers. `is_stranded`: the position is beyond the end of a stream with
    undelivered entries. `lag` and all durations may be unknown (None).
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
    """Return the status of a group from one or more samples. The last sample is the current one."""
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
    """Return whether each lag is larger than the previous lag."""
    known = [lag for lag in lags if lag is not None]
    return len(known) == len(lags) and all(a < b for a, b in pairwise(known))
