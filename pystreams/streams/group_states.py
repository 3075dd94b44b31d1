"""Consumer groups: position, lag in entries and in seconds, pending entries, consumers, status.

Streams are read in pages: first XINFO GROUPS, then for each group XINFO CONSUMERS, the first pending entry, and the
first undelivered entry. The status is judged by changes of position and lag over a period, as Burrow does for Kafka:

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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from pystreams.errors import fail
from pystreams.streams import inventory
from pystreams.streams.inventory import Stream, parsed, read_streams
from pystreams.streams.paged_calls import ask, failure, number, pages
from pystreams.streams.pending import idle_of
from pystreams.values.names import shown
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.reply_maps import pairs
from streamclient.streams.lag import Asked, Backlog, Budget, backlogs
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
class Consumer:
    """A consumer of a group.

    `idle_ms`: time since the consumer's last call. `inactive_ms`: time since it last received an entry; None if it
    never received one, or if the server does not report this time (before Redis 7.2).
    """

    name: bytes
    pending: int
    idle_ms: int
    inactive_ms: int | None


@dataclass(frozen=True)
class Group:
    """A group of a stream, at the time `at` (milliseconds since 1970).

    `lag`: number of undelivered entries; None if unknown. If it is not `exact`, it is an estimate between `least` and
    `most`. `behind_ms`: age of the first undelivered entry; 0 if all entries are delivered. `oldest`: ID of the first
    pending entry. `oldest_idle_ms`: time since that entry's last delivery; None if the entry was given back.
    `consumers`: None if they were not requested. `rate`: entries delivered to the group per second; `catch_up_ms`: time
    until the lag is 0 if it goes on to shrink as it does, None if it does not shrink. Both are None unless several
    samples were taken (`pystreams.streams.sampling`).
    """

    stream: Stream
    name: bytes
    position: StreamId
    lag: int | None
    exact: bool
    read: int | None
    pending: int
    consumer_count: int
    at: int
    behind_ms: int | None = None
    oldest: StreamId | None = None
    oldest_idle_ms: int | None = None
    consumers: tuple[Consumer, ...] | None = None
    rate: float | None = None
    catch_up_ms: int | None = None
    least: int | None = None
    most: int | None = None

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """Lower and upper bound of the lag; None for a bound that is unknown."""
        return (self.lag, self.lag) if self.exact else (self.least, self.most)

    def may_exceed(self, limit: int) -> bool:
        """Return whether the lag may be larger than a limit. True if the lag has no known upper bound."""
        most = self.bounds[1]
        return most is None or most > limit

    @property
    def is_beyond(self) -> bool:
        """Whether the group's position is beyond the last ID ever generated, so that entries with smaller IDs are never
        delivered.
        """
        return self.position > self.stream.last_id

    @property
    def is_stranded(self) -> bool:
        """Whether the group's position is beyond the stream's end although there are undelivered entries, which the
        group never receives.
        """
        return self.is_beyond and bool(self.lag)

    @property
    def delivered(self) -> int | None:
        """Number of entries that the group has received or skipped; None if unknown."""
        if self.read is None and self.exact and self.lag is not None and self.stream.entries_added is not None:
            return self.stream.entries_added - self.lag
        return self.read

    @property
    def idle_ms(self) -> int | None:
        """Milliseconds since the last call of any consumer; None without consumers."""
        return min((consumer.idle_ms for consumer in self.consumers or ()), default=None)

    @property
    def at_start(self) -> bool:
        """Whether none of the stream's existing entries was delivered, so that the first one is next."""
        return self.stream.first_id is not None and self.position < self.stream.first_id

    @property
    def sample(self) -> Sample:
        """What later samples of the group are compared with."""
        return Sample(self.at, self.position, self.lag, self.delivered)


class Sample(NamedTuple):
    """An earlier sample of a group; see `Group`."""

    at: int
    position: StreamId
    lag: int | None
    delivered: int | None


def judge(group: Group, earlier: Sequence[Sample] = (), limit_ms: int = LIMIT_MS) -> Status:
    """Return the status of a group, from its current state and from earlier samples, oldest first."""
    samples = [*earlier, group.sample]
    if any(later.position < before.position for before, later in pairwise(samples)):
        return Status.REWIND
    behind = group.lag is None or group.lag > 0
    if not behind and not group.pending:
        return Status.OK
    unknown = group.consumers is None and group.consumer_count > 0  # then assume that a consumer has just called
    silent = not unknown and (group.idle_ms is None or group.idle_ms > limit_ms)
    waiting = behind and (group.behind_ms is None or group.behind_ms > limit_ms)
    unacknowledged = group.pending > 0 and (group.oldest_idle_ms or 0) > limit_ms
    if silent and (group.is_stranded or waiting or unacknowledged):
        return Status.STOP
    if unacknowledged or group.is_stranded:
        return Status.STALL
    if waiting and group.at - samples[0].at >= limit_ms and group.position == samples[0].position:
        return Status.STALL
    lags = [sample.lag for sample in samples]
    grows = all(before is not None and after is not None and before < after for before, after in pairwise(lags))
    return Status.WARNING if behind and len(samples) > 2 and grows else Status.OK


def groups(
    connection: Connection,
    names: Iterable[bytes],
    now: int,
    *,
    budget: Budget | None = None,
    forbidden: set[bytes] | None = None,
) -> Iterator[Group]:
    """Return the groups of these streams; see `groups_of` and, for `forbidden`, `read_streams`."""
    streams = read_streams(connection, names, memory=False, forbidden=forbidden)
    return groups_of(connection, streams, now, budget=budget)


def groups_of(
    connection: Connection, streams: Iterable[Stream], now: int, *, budget: Budget | None = None
) -> Iterator[Group]:
    """Yield the groups of these streams without the details that `detailed` adds.

    `budget`: limit on counting lags that the server does not report; None for a budget of this call alone.
    """
    budget = budget or Budget()
    for page in pages(streams):
        requested = [stream for stream in page if stream.groups]
        commands: list[Command] = [("XINFO", "GROUPS", stream.name) for stream in requested]
        found: list[Group] = []
        for command, stream, reply in zip(commands, requested, connection.pipeline(commands), strict=True):
            if isinstance(reply, ResponseError):
                problem = failure(connection, command, reply)
                if problem.condition in ("NO_SUCH_STREAM", "NOT_A_STREAM"):
                    continue
                raise problem
            found += [_parsed(stream, pairs(info), now) for info in reply]
        yield from _counted(connection, found, budget)


def lag_range(group: Group) -> str:
    """Return the bounds of a group's lag as text."""
    least, most = group.bounds
    return "unknown" if least is None or most is None else f"between {least:,} and {most:,}"


def need(connection: Connection, stream: bytes, name: bytes, now: int) -> Group:
    """Return one group with its details. Raises NO_SUCH_STREAM, NOT_A_STREAM and NO_SUCH_GROUP."""
    found = parsed(stream, ask(connection, "XINFO", "STREAM", stream))
    for group in groups_of(connection, [found], now):
        if group.name == name:
            return next(detailed(connection, [group]))
    return fail("NO_SUCH_GROUP", stream=shown(stream), group=shown(name), address=connection.address)


def _parsed(stream: Stream, info: dict[bytes, Any], now: int) -> Group:
    lag = number(info.get(b"lag"))
    return Group(
        stream,
        info[b"name"],
        StreamId.parse(info[b"last-delivered-id"]),
        lag,
        lag is not None,
        number(info.get(b"entries-read")),
        int(info[b"pending"]),
        int(info[b"consumers"]),
        now,
        behind_ms=0 if lag == 0 else None,
    )


def _counted(connection: Connection, found: Sequence[Group], budget: Budget) -> list[Group]:
    """Return the groups with their lags. Those that the server does not report are counted within the budget.

    A group beyond the end of its stream keeps the lag that the server reports, since it never receives an entry.
    """
    within = [Asked(each.stream.name, each.stream, each.position, each.lag) for each in found if not each.is_beyond]
    counted = iter(backlogs(connection, within, budget))
    return [group if group.is_beyond else _with_lag(group, next(counted)) for group in found]


def _with_lag(group: Group, lag: Backlog) -> Group:
    behind_ms = 0 if lag.most == 0 else None
    return replace(group, lag=lag.entries, exact=lag.is_exact, behind_ms=behind_ms, least=lag.least, most=lag.most)


def detailed(
    connection: Connection, found: Iterable[Group], consumers: Callable[[Group], bool] = lambda _: True
) -> Iterator[Group]:
    """Yield the groups with their consumers, the first pending entry and the age of the first undelivered entry.

    `consumers`: whether to request a group's consumers; XINFO CONSUMERS returns all of them in one reply.
    """

    def sent(group: Group) -> int:
        return inventory.sent_behind(connection, group.stream.name) if group.lag and not group.at_start else 0

    # Pages are smaller if the server has to send large entries.
    for page in pages(found, bytes_of=sent, most_bytes=inventory.REPLY_BYTES):
        commands: list[Command] = []
        requested: list[tuple[Group, list[str]]] = []
        for group in page:
            parts: list[str] = []
            if consumers(group):
                parts.append("consumers")
                commands.append(("XINFO", "CONSUMERS", group.stream.name, group.name))
            if group.pending:
                parts.append("oldest")
                commands.append(("XPENDING", group.stream.name, group.name, "-", "+", 1))
            if group.lag and not group.at_start:
                parts.append("undelivered")
                commands.append(inventory.first_behind(connection, group.stream.name, group.position))
            requested.append((group, parts))
        replies = iter(connection.pipeline(commands))
        yield from [_with(group, {part: next(replies) for part in parts}) for group, parts in requested]


def _with(group: Group, replies: Mapping[str, Any]) -> Group:
    """Return the group with these replies added.

    Attributes stay unknown if the server refused a command, or if the group no longer exists.
    """
    changes: dict[str, Any] = {}
    consumers = _unless_refused(replies.get("consumers"))
    if consumers is not None:
        changes["consumers"] = tuple(map(_consumer, map(pairs, consumers)))
    oldest = _unless_refused(replies.get("oldest"))
    if oldest:
        changes |= {"oldest": StreamId.parse(oldest[0][0]), "oldest_idle_ms": idle_of(oldest[0])}
    first = group.stream.first_id if group.at_start else inventory.first_of(_unless_refused(replies.get("undelivered")))
    if group.lag and first is not None:
        changes["behind_ms"] = max(0, group.at - first.ms)
    elif _unless_refused(replies.get("undelivered")) is not None and not group.is_beyond:
        changes |= {"lag": 0, "exact": True, "behind_ms": 0}  # the remaining entries were read or removed since XINFO
    return replace(group, **changes)


def _unless_refused(reply: Any) -> Any:
    return None if isinstance(reply, ResponseError) else reply


def _consumer(info: dict[bytes, Any]) -> Consumer:
    inactive = number(info.get(b"inactive"))
    return Consumer(
        info[b"name"], int(info[b"pending"]), int(info[b"idle"]), None if inactive is None or inactive < 0 else inactive
    )
