"""The last samples of each group, since some statuses need several samples (`pystreams.streams.groups.status`).

About a dozen samples per group are kept, from a little more than a minute. A group without recent samples is dropped.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from pystreams.streams import paged_calls
from pystreams.streams.groups import group_states
from pystreams.streams.groups.group_states import Group
from pystreams.streams.groups.status import LIMIT_MS, Sample, Status, judge
from streamclient.connection import Connection
from streamclient.streams.lag import Budget

_APART_MS = 5_000
_FORGET_MS = 10 * LIMIT_MS  # age of a group's last sample after which the group is dropped


class History:
    """Judges groups by their samples so far.

    `apart_ms`: minimum time between stored samples; a sample that follows sooner is judged, but not stored.
    """

    def __init__(self, apart_ms: int = _APART_MS) -> None:
        self._apart_ms = apart_ms
        self._samples: dict[tuple[bytes, bytes], deque[Sample]] = {}
        self._swept = 0

    def judge(self, group: Group) -> Status:
        """Return the status of the group; `group` is its newest sample."""
        now = group.sample
        samples = self._samples.setdefault((group.stream.name, group.name), deque())
        status = judge([*samples, now])
        if not samples or now.at - samples[-1].at >= self._apart_ms:
            samples.append(now)
        # Keep one sample that is older than the limit, to see whether the position has been unchanged since then.
        while len(samples) > 1 and now.at - samples[1].at >= LIMIT_MS:
            samples.popleft()
        return status

    def sample(
        self,
        connection: Connection,
        streams: Iterable[bytes],
        name: bytes | None = None,
        *,
        limit: int = 0,
        budget: Budget | None = None,
        forbidden: set[bytes] | None = None,
        advance: Callable[[int], object] = lambda _count: None,
    ) -> tuple[list[tuple[Group, Status]], bool]:
        """Return the groups of these streams with their statuses, by stream and name, and whether there are more.

        `name`: only groups of this name. `limit`: maximum number of groups; 0 for all. `budget`, `forbidden`: see
        `group_states.groups`. `advance` is called for each group. A full sample drops groups that no longer exist, so
        that a group created again has no history.
        """
        now = paged_calls.now_ms(connection)

        def wanted() -> Iterator[Group]:
            for each in group_states.groups(
                connection, streams, now, details=name is None, budget=budget, forbidden=forbidden
            ):
                if name is None or each.name == name:
                    advance(1)
                    yield each

        found = list(itertools.islice(wanted(), limit + 1) if limit else wanted())
        more = bool(limit) and len(found) > limit
        if name is not None:
            found = group_states.detailed(connection, found)
        found.sort(key=lambda each: (each.stream.name, each.name))
        if not more:
            kept = {(each.stream.name, each.name) for each in found}
            self._samples = {key: samples for key, samples in self._samples.items() if key in kept}
        return [(each, self.judge(each)) for each in (found[:limit] if limit else found)], more

    def sweep(self, now: int) -> None:
        """Drop the groups without a recent sample. `now`: milliseconds since 1970."""
        if now - self._swept < LIMIT_MS:
            return
        self._swept = now
        for key in [key for key, samples in self._samples.items() if now - samples[-1].at > _FORGET_MS]:
            del self._samples[key]
