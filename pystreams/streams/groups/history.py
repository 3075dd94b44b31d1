"""The last looks at each group, for a status that needs several: see `pystreams.streams.groups.status`.

Bounded: at most a dozen looks at a group are kept, over a little more than a minute, and a group that was not looked at
for a while is forgotten.
"""

from __future__ import annotations

from collections import deque

from pystreams.streams.groups.states import Group
from pystreams.streams.groups.status import LIMIT_MS, Sample, Status, judge

_APART_MS = 5_000  # looks that follow sooner do not count as looks of their own
_FORGET_MS = 10 * LIMIT_MS


class History:
    """Judges groups by what it has seen of them so far."""

    def __init__(self) -> None:
        self._looks: dict[tuple[bytes, bytes], deque[Sample]] = {}
        self._swept = 0

    def judge(self, group: Group) -> Status:
        """Return the status of the group, of which this is the newest look."""
        now = group.sample
        looks = self._looks.setdefault((group.stream.name, group.name), deque())
        status = judge([*looks, now])
        if not looks or now.at - looks[-1].at >= _APART_MS:
            looks.append(now)
        # The first look must be old enough to show that the position stayed where it was for so long.
        while len(looks) > 1 and now.at - looks[1].at >= LIMIT_MS:
            looks.popleft()
        return status

    def sweep(self, now: int) -> None:
        """Forget the groups that were not looked at for long. `now`: milliseconds since 1970."""
        if now - self._swept < LIMIT_MS:
            return
        self._swept = now
        for key in [key for key, looks in self._looks.items() if now - looks[-1].at > _FORGET_MS]:
            del self._looks[key]
