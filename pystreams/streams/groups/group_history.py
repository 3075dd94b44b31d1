"""The last samples of each group, since some statuses need several samples (`pystreams.streams.groups.status`).

About a dozen samples per group are kept, from a little more than a minute. A group without recent samples is dropped.
"""

from __future__ import annotations

from collections import deque

from pystreams.streams.groups.group_states import Group
from pystreams.streams.groups.status import LIMIT_MS, Sample, Status, judge

_APART_MS = 5_000  # minimum time between stored samples; a sample that follows sooner is judged, but not stored
_FORGET_MS = 10 * LIMIT_MS  # age of a group's last sample after which the group is dropped


class History:
    """Judges groups by their samples so far."""

    def __init__(self) -> None:
        self._samples: dict[tuple[bytes, bytes], deque[Sample]] = {}
        self._swept = 0

    def judge(self, group: Group) -> Status:
        """Return the status of the group; `group` is its newest sample."""
        now = group.sample
        samples = self._samples.setdefault((group.stream.name, group.name), deque())
        status = judge([*samples, now])
        if not samples or now.at - samples[-1].at >= _APART_MS:
            samples.append(now)
        # Keep one sample that is older than the limit, to see whether the position has been unchanged since then.
        while len(samples) > 1 and now.at - samples[1].at >= LIMIT_MS:
            samples.popleft()
        return status

    def sweep(self, now: int) -> None:
        """Drop the groups without a recent sample. `now`: milliseconds since 1970."""
        if now - self._swept < LIMIT_MS:
            return
        self._swept = now
        for key in [key for key, samples in self._samples.items() if now - samples[-1].at > _FORGET_MS]:
            del self._samples[key]
