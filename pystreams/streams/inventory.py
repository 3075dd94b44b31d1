"""Streams: their names, found by SCAN in pages, and the replies of XINFO STREAM and MEMORY USAGE about each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pystreams.streams import ids
from pystreams.streams.paged_calls import ask_all, failure, number, pages
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import ResponseError
from streamclient.link import Link
from streamclient.reply_maps import pairs
from streamclient.streams.lag import Asked, Backlog, Budget, backlogs
from streamclient.streams.states import StreamState
from streamwire.stream_id import ZERO, StreamId

_SCANNED = 1000  # keys that the server scans per reply
_MEMORY_SAMPLES = 5  # nodes of the stream that MEMORY USAGE samples


@dataclass(frozen=True)
class Stream:
    """State of a stream at one moment. `first`, `last`: IDs of existing entries; `generated`: the last ID ever
    generated; `deleted`: the largest ID of a deleted entry, or 0-0.

    `added` is None before Redis 7. `bytes` is the server's estimate; None if it was not requested or not permitted.
    `rate`: entries per second; None if it was not measured.
    """

    name: bytes
    length: int
    first: StreamId | None
    last: StreamId | None
    generated: StreamId
    added: int | None
    deleted: StreamId
    groups: int
    bytes: int | None = None
    rate: float | None = None
    #: None for streams with large entries, because XINFO STREAM, which reports this number, is not called for them.
    radix_keys: int | None = field(default=None, compare=False)
    #: None for the same streams as `radix_keys`.
    radix_nodes: int | None = field(default=None, compare=False)

    @property
    def removed(self) -> int | None:
        """Number of entries that were trimmed or deleted."""
        return None if self.added is None else max(0, self.added - self.length)

    @property
    def has_gaps(self) -> bool:
        """Whether an entry after the first existing one was deleted."""
        return self.first is not None and self.deleted > self.first

    def average_rate(self, now: int) -> float | None:
        """Return entries per second from the first existing entry until now.

        Returns None if the stream has no entries, or if their IDs are not times. `now`: milliseconds since 1970. The
        average includes the time since the last entry, so it falls while the stream is idle.
        """
        if self.first is None or self.last is None or now <= self.first.ms or self.first.ms < now // 2:
            return None
        if self.last.ms > now:
            return None
        return self.length * 1000 / (now - self.first.ms)

    @property
    def state(self) -> StreamState:
        """The same state as a `StreamState` of the client."""
        return StreamState(self.generated, self.length, self.first, None, self.added, self.deleted)


def scan(connection: Connection, pattern: bytes = b"*") -> Iterator[bytes]:
    """Yield the names of the streams that match a glob, each once, in the server's order, master by master."""
    seen: set[bytes] = set()
    for page in scan_pages(connection, pattern):
        for name in page:
            if name not in seen:
                seen.add(name)
                yield name


def scan_pages(connection: Connection, pattern: bytes, kind: str = "stream") -> Iterator[list[bytes]]:
    """Yield pages of the keys of a kind. A page may be empty, and may repeat keys of earlier pages."""
    for endpoint in connection.topology.masters():
        cursor: bytes | int = 0
        while True:
            command: Command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED, "TYPE", kind)
            cursor, page = _on(connection, connection.link_to(endpoint), command)
            yield page
            if int(cursor) == 0:
                break


def _on(connection: Connection, link: Link, command: Command) -> Any:
    """Send a command to one server, since a cursor is valid only there."""
    try:
        (reply,) = link.pipeline([command])
    except BROKEN as cause:
        connection.drop(link)
        raise connection.unreachable(cause) from cause
    if isinstance(reply, ResponseError):
        raise failure(connection, command, reply)
    return reply


def read_streams(
    connection: Connection, names: Iterable[bytes], *, memory: bool = True, forbidden: set[bytes] | None = None
) -> Iterator[Stream]:
    """Yield the states of streams. Streams that no longer exist are omitted.

    `forbidden`: receives the names of streams that the user may not read, which are omitted too. If
    `forbidden` is None, such a stream raises NOT_PERMITTED.
    """
    for page in pages(names):
        sizes: list[Any] = [None] * len(page)
        if memory:
            sizes = connection.pipeline([("MEMORY", "USAGE", name, "SAMPLES", _MEMORY_SAMPLES) for name in page])
        for name, reply, used in zip(page, ids.states(connection, page), sizes, strict=True):
            if isinstance(reply, ResponseError):
                if forbidden is not None and ids.is_forbidden_key(reply):
                    forbidden.add(name)
                    continue
                problem = failure(connection, ("XINFO", "STREAM", name), reply)
                if problem.condition in ("NO_SUCH_STREAM", "NOT_A_STREAM"):
                    continue
                raise problem
            yield parsed(name, reply, used if isinstance(used, int) else None)


def need(connection: Connection, name: bytes) -> Stream:
    """Return one stream with its memory usage. Raises NO_SUCH_STREAM and NOT_A_STREAM."""
    commands: list[Command] = [("XINFO", "STREAM", name)]
    (reply,) = ask_all(connection, commands)
    (used,) = connection.pipeline([("MEMORY", "USAGE", name, "SAMPLES", _MEMORY_SAMPLES)])
    return parsed(name, reply, used if isinstance(used, int) else None)


def parsed(name: bytes, reply: Any, used: int | None = None) -> Stream:
    """Return a reply of XINFO STREAM as a stream. The reply contains the first and last entry, or only their IDs."""
    info = pairs(reply)
    first, last = (
        entry[0] if isinstance(entry, list) else entry for entry in map(info.get, (b"first-entry", b"last-entry"))
    )
    return Stream(
        name,
        length=int(info[b"length"]),
        first=StreamId.parse(first) if first else None,
        last=StreamId.parse(last) if last else None,
        generated=StreamId.parse(info[b"last-generated-id"]),
        added=number(info.get(b"entries-added")),
        deleted=StreamId.parse(info.get(b"max-deleted-entry-id") or str(ZERO)),
        groups=int(info[b"groups"]),
        bytes=used,
        radix_keys=number(info.get(b"radix-tree-keys")),
        radix_nodes=number(info.get(b"radix-tree-nodes")),
    )


def behind(connection: Connection, requested: Sequence[tuple[Stream, StreamId]]) -> list[Backlog]:
    """Return the number of entries after a position of each stream: counted within a common budget, otherwise
    estimated.
    """
    counted = [Asked(stream.name, stream.state, position) for stream, position in requested]
    return backlogs(connection, counted, Budget())


def measured(connection: Connection, streams: Sequence[Stream], seconds: float) -> list[Stream]:
    """Wait for `seconds`, and return the streams that still exist, with their rates in this period."""
    begin = time.monotonic()
    before = {stream.name: stream for stream in streams}
    time.sleep(seconds)
    found = list(read_streams(connection, before))
    passed = time.monotonic() - begin
    return [replace(stream, rate=_grown(before[stream.name], stream) / passed) for stream in found]


def _grown(before: Stream, now: Stream) -> int:
    if now.added is not None and before.added is not None:
        return max(0, now.added - before.added)
    return max(0, now.length - before.length)
