"""Lag: the number of entries after a position, exact or counted within a budget, otherwise an estimate with bounds.

The lag of a group is exact if the server reports it, or if the position is before the first or after the last entry.
Redis has no command that counts a range. Entries are counted in pages from the position on, many streams at a time. If
the budget is exhausted, the rest is estimated from the time spans of the uncounted entries and of those before the
position.

`unfinished` finds existing entries that groups have not read or acknowledged, which would be lost if a stream were
emptied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.reply_maps import pairs
from streamclient.streams.page_size import ALL, FIRST_PAGE, TARGET_BYTES, PageSize
from streamclient.streams.states import StreamState, stream_state
from streamwire.stream_id import StreamId

_PAGE = 1000  # maximum number of entries per command; the server serves other clients between commands
_PIPELINE = 5000  # entries of one pipeline
_PIPELINE_BYTES = 16 << 20  # approximate bytes of entries of one pipeline
_SMALL = 1024  # assumed size of an entry unless it is known to be larger
_MOST_DECIDING, _MOST_DECIDING_BYTES = 2_000_000, 256 << 20  # maximum entries and bytes of `Budget.deciding`


class Asked(NamedTuple):
    """A position in a stream. `lag`: lag of a group at this position, if the server reports it."""

    stream: bytes
    state: StreamState
    position: StreamId
    lag: int | None = None


@dataclass
class Budget:
    """Remaining cost limit of counting: number of entries to examine, and their bytes.

    Each call of `backlogs` spends at most about half of the remaining budget, so that later calls also get a share.
    `enough`: number of entries above which counting stops, for callers that compare with a limit.
    """

    entries: int = 100_000
    bytes: int = 64 << 20
    enough: int | None = None

    @classmethod
    def deciding(cls, limit: int | None) -> Budget:
        """Return the budget for a comparison with a limit. The budget is bounded, but larger than the default if the
        limit is large.
        """
        if limit is None:
            return cls()
        entries = max(cls.entries, min(_MOST_DECIDING, 4 * (limit + 1)))
        return cls(entries, max(cls.bytes, min(_MOST_DECIDING_BYTES, entries * _SMALL)), limit)


@dataclass(frozen=True)
class Backlog:
    """Number of entries after a position, between `least` and `most`. An exact number is equal to both."""

    entries: int
    least: int
    most: int

    @property
    def is_exact(self) -> bool:
        """Whether `entries` is exact rather than an estimate."""
        return self.least == self.most


class _Count:
    """The count of one stream: the number of entries found in (position, upto]."""

    def __init__(self, stream: bytes, state: StreamState, position: StreamId, lag: int | None) -> None:
        self.stream, self.state, self.position = stream, state, position
        self._size = PageSize(_PAGE)
        self._found, self._upto = 0, position
        self._is_refused = False
        self.total = state.exact_backlog(position, lag)

    def is_settled(self, enough: int | None) -> bool:
        """Return whether more counting would not change the result."""
        return self.total is not None or self._is_refused or (enough is not None and self._found > enough)

    def command(self, sizes: Mapping[str, int], share: int) -> tuple[Command, int, int]:
        """Return the command for the next page, its number of entries, and their approximate size in bytes."""
        size = sizes.get(self.stream.decode("utf-8", "surrogateescape"), _SMALL)
        count = min(self._size.now, share)
        if size > _SMALL:
            count = max(1, min(count, TARGET_BYTES // size))
        words: Command = ("XRANGE", self.stream, f"({self._upto}", str(self.state.last_id), "COUNT", count)
        return words, count, count * size

    def record(self, reply: Any, count: int) -> tuple[int, int]:
        """Record a page's reply. Returns the number of its entries and their bytes."""
        if isinstance(reply, ResponseError):
            self._is_refused = True
            return 0, 0
        number, size = len(reply), sum(len(word) for _, words in reply for word in words or ())
        self._size.update(max(1, number), size)
        self._found += number
        if reply:
            self._upto = StreamId.parse(reply[-1][0])
        if number < count or self._upto >= self.state.last_id:
            self.total = self._found
        return number, size

    @property
    def result(self) -> Backlog:
        """The result so far."""
        if self.total is not None:
            return Backlog(self.total, self.total, self.total)
        position = self.position
        first = self.state.first_id or position
        most = max(self._found, self.state.length - (1 if first <= position else 0))
        later = max(0, self.state.last_id.ms - self._upto.ms)
        span = later + max(0, position.ms - first.ms)
        part = later / span if span else 1.0
        return Backlog(self._found + round((most - self._found) * part), self._found, most)


def backlogs(connection: Connection, requested: Sequence[Asked], budget: Budget) -> list[Backlog]:
    """Return the number of entries after each position. Numbers that are not known are counted within the budget."""
    counts = [_Count(*each) for each in requested]
    known = connection.capabilities
    if (unknown := [each for each in counts if each.total is None]) and known.has("PS.NTH"):
        _by_extension(connection, unknown)
    open_counts = [each for each in counts if not each.is_settled(budget.enough)]
    spared = Budget(budget.entries // 2, budget.bytes // 2)
    # Many lags are short and need only a first page, which costs no more than the other requests for a group.
    budget.entries = max(budget.entries, spared.entries + FIRST_PAGE * len(open_counts))
    while open_counts and budget.entries > spared.entries and budget.bytes > spared.bytes:
        share = max(1, (budget.entries - spared.entries) // len(open_counts))
        left = iter(open_counts)
        while page := _page(left, known.sizes, share, budget, spared):
            replies = connection.pipeline([command for _, command, _ in page])
            for (each, _, count), reply in zip(page, replies, strict=True):
                number, size = each.record(reply, count)
                budget.entries -= max(1, number)
                budget.bytes -= size
        open_counts = [each for each in open_counts if not each.is_settled(budget.enough)]
    return [each.result for each in counts]


def _page(
    counts: Iterator[_Count], sizes: Mapping[str, int], share: int, budget: Budget, spared: Budget
) -> list[tuple[_Count, Command, int]]:
    """Return the next pages of as many streams as fit into one pipeline."""
    page: list[tuple[_Count, Command, int]] = []
    entries = min(_PIPELINE, budget.entries - spared.entries)
    size = min(_PIPELINE_BYTES, budget.bytes - spared.bytes)
    while entries > 0 and size > 0 and (each := next(counts, None)) is not None:
        command, count, expected = each.command(sizes, share)
        page.append((each, command, count))
        entries -= count
        size -= expected
    return page


def _by_extension(connection: Connection, counts: Sequence[_Count]) -> None:
    """Count on the engine, which keeps the number of entries of each segment. If it refuses, pages are counted."""
    commands: list[Command] = [("PS.NTH", each.stream, str(each.position), ALL) for each in counts]
    for each, reply in zip(counts, connection.pipeline(commands), strict=True):
        if not isinstance(reply, ResponseError):
            each.total = int(reply[1])


@dataclass(frozen=True)
class Unfinished:
    """The existing entries of a stream that a group has yet to read (`unread`), and to acknowledge (`pending`)."""

    stream: bytes
    group: bytes
    unread: Backlog
    pending: int

    def __str__(self) -> str:
        about = "" if self.unread.is_exact else "about "
        name = self.group.decode("utf-8", "replace")
        return f"{name} ({about}{self.unread.entries} unread, {self.pending} pending)"


def unfinished(connection: Connection, replies: Sequence[tuple[bytes, Any, Any]]) -> list[Unfinished]:
    """Return the groups with unfinished entries. `replies`: streams with their replies of XINFO STREAM and GROUPS."""
    groups: list[tuple[bytes, StreamState, dict[bytes, Any], StreamId]] = []
    for stream, reply, listed in replies:
        if isinstance(reply, list) and isinstance(listed, list):
            state = stream_state(reply, None)
            several = map(pairs, listed)
            groups += [(stream, state, group, StreamId.parse(group[b"last-delivered-id"])) for group in several]
    requested = [Asked(stream, state, position, group.get(b"lag")) for stream, state, group, position in groups]
    unread = backlogs(connection, requested, Budget())
    found = [
        Unfinished(stream, group[b"name"], backlog, _pending(connection, stream, state, group))
        for (stream, state, group, _), backlog in zip(groups, unread, strict=True)
    ]
    return [each for each in found if each.unread.most or each.pending]


def _pending(connection: Connection, stream: bytes, state: StreamState, group: dict[bytes, Any]) -> int:
    """Return the number of a group's pending entries, at most the stream's length; 0 if all of them were trimmed."""
    reported, first = int(group[b"pending"]), state.first_id
    if not reported or first is None:
        return 0
    (summary,) = connection.pipeline([("XPENDING", stream, group[b"name"])])
    trimmed = isinstance(summary, list) and summary[0] and StreamId.parse(summary[2]) < first
    return 0 if trimmed else min(reported, state.length)
