"""Snapshot of the server at one moment: streams and groups with rates and status, in sorted and filtered lists.

A snapshot never changes. Each sorted list is computed on first use, once for all browsers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pystreams import measures
from pystreams.measures import GroupRow, StreamRow
from pystreams.streams.groups.group_states import Group, Status
from pystreams.streams.groups.sampling import Name


@dataclass(frozen=True)
class Totals:
    """Totals over all streams.

    `exact`: whether the lag of every group is exact. `unreadable`: number of streams that are left out, because the
    dashboard's user may not read them.
    """

    streams: int = 0
    entries: int = 0
    groups: int = 0
    lag: int = 0
    pending: int = 0
    rate: float | None = None
    behind_ms: int | None = None
    statuses: Mapping[str, int] = field(default_factory=dict)
    exact: bool = True
    unreadable: int = 0


Row = TypeVar("Row")

#: Selects the rows with any status except ok.
ATTENTION = "attention"
_WELL = (None, Status.OK)
_LISTS = 40  # maximum number of sorted and filtered lists that a snapshot caches

#: Measures by which streams and groups can be sorted.
SORTS = {kind: {each.name: each for each in measures.IN_BROWSER[kind]} for kind in ("streams", "groups")}


class Snapshot:
    """One sample. `at`: the server's time in milliseconds; `facts`: lines of INFO; `letters`: dead-letter streams.

    `took`: duration of the sample in seconds; `sent`: number of its commands; `commands`: commands per second of the
    dashboard and of all other clients; `unreadable`: see `Totals`.
    """

    def __init__(
        self,
        at: int,
        streams: Mapping[bytes, StreamRow],
        groups: Mapping[Name, GroupRow],
        facts: Mapping[str, str],
        letters: Sequence[bytes] = (),
        took: float = 0.0,
        commands: Mapping[str, float] | None = None,
        sent: int = 0,
        unreadable: int = 0,
    ) -> None:
        self.at, self.streams, self.groups, self.facts, self.took = at, streams, groups, facts, took
        self.letters = tuple(letters)
        self.commands = commands or {}
        self.sent = sent
        self.totals = replace(_totals(streams, groups), unreadable=unreadable)
        self._lists: dict[tuple[str, ...], list[Any]] = {}

    def judged(self, group: Group) -> GroupRow:
        """Return a group that was read now, with the status and the rates of this sample if the group is in it."""
        sampled = self.groups.get((group.stream.name, group.name))
        if sampled is None:
            return GroupRow.judged(group)
        rates = replace(group, rate=sampled.group.rate, catch_up_ms=sampled.group.catch_up_ms)
        return GroupRow(rates, sampled.status)

    def totals_of(self, names: Collection[bytes]) -> Totals:
        """Return the totals over these streams."""
        return _totals(
            {name: self.streams[name] for name in names if name in self.streams},
            {key: row for key, row in self.groups.items() if row.group.stream.name in names},
        )

    def ordered(self, kind: str, sort: str, *, falling: bool, search: str = "", status: str = "") -> Rows[Any]:
        """Return the streams or groups whose names contain `search`, in the order of one of `SORTS`.

        `status`: the selected status, or `ATTENTION`; empty for all.
        """
        rows: Mapping[Any, StreamRow | GroupRow] = self.streams if kind == "streams" else self.groups
        key = SORTS[kind][sort].sorted_by
        every = self._cached((kind, sort), lambda: sorted(rows.values(), key=key))
        if search or status:
            part = search.encode().lower()
            every = self._cached(
                (kind, sort, search, status),
                lambda: [
                    row
                    for row in every
                    if (not status or row.status == status or (status == ATTENTION and row.status not in _WELL))
                    and part in b" ".join(row.names).lower()
                ],
            )
        return Rows(every, falling)

    def _cached(self, key: tuple[str, ...], make: Callable[[], list[Any]]) -> list[Any]:
        """Return a list from the cache, or make it. If the cache is full, the oldest list is dropped."""
        found = self._lists.get(key)
        if found is None:
            found = make()
            while len(self._lists) >= _LISTS:
                self._lists.pop(next(iter(self._lists)), None)
            self._lists[key] = found
        return found


class Rows(Sequence[Row]):
    """A view of rows in ascending or descending order, without a copy."""

    def __init__(self, rows: list[Row], falling: bool) -> None:
        self._rows, self._falling = rows, falling

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        return self._rows[len(self._rows) - 1 - at if self._falling else at]


def _totals(streams: Mapping[bytes, StreamRow], groups: Mapping[Name, GroupRow]) -> Totals:
    statuses = {status.value: 0 for status in Status}
    for row in groups.values():
        statuses[row.status.value] += 1
    rates = [row.stream.rate for row in streams.values() if row.stream.rate is not None]
    return Totals(
        streams=len(streams),
        entries=sum(row.stream.length for row in streams.values()),
        groups=len(groups),
        lag=sum(row.group.lag or 0 for row in groups.values()),
        pending=sum(row.group.pending for row in groups.values()),
        rate=sum(rates) if rates or not streams else None,
        behind_ms=max(
            (row.group.behind_ms for row in groups.values() if row.group.behind_ms is not None), default=None
        ),
        statuses=statuses,
        exact=all(row.group.exact for row in groups.values()),
    )


EMPTY = Snapshot(0, {}, {}, {})
