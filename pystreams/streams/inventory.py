"""Streams: their names, found by SCAN in pages, and their states.

XINFO STREAM sends the first and the last entry of a stream completely. For two hundred streams, these may be gigabytes.
So XINFO STREAM is sent for a few streams at a time, unless their entries are known to be small. On the engine, PS.STATE
and PS.NTH are used for streams whose entries may be large.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.streams.paged_calls import ask_all, failure, pages
from pystreams.values.names import to_shell
from streamclient.config.address import Endpoint
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import ResponseError
from streamclient.reply_maps import pairs
from streamclient.streams.lag import Asked, Backlog, Budget, backlogs
from streamclient.streams.states import StreamState, stream_state
from streamwire.stream_id import StreamId

_LARGE = 1024  # size of an entry in bytes above which PS.STATE is used
_UNKNOWN = 1 << 19  # assumed size of an entry if nothing is known, in bytes
_ALL = 1 << 40  # larger than the number of entries in any stream
#: Approximate maximum size of the entries in the replies to one pipeline, in bytes.
REPLY_BYTES = 16 << 20
#: Refusal of a key, in the words of Redis 6, and in those of Redis 7 and later.
_FORBIDDEN_KEY = re.compile("NOPERM .*access (one of the keys|a key|the '.*' key$)", re.DOTALL)


def states(connection: Connection, names: Sequence[bytes]) -> list[Any]:
    """Return the replies of XINFO STREAM, including refusals.

    Entries that may be large are replaced by their IDs, if the user may call PS.STATE.
    """
    known = connection.capabilities
    found: dict[bytes, Any] = {}
    if (large := [name for name in names if size_of(connection, name) > _LARGE]) and has_nth(connection):
        found = _by_extensions(connection, large)
    whole = [name for name in names if name not in found]
    for page in pages(whole, bytes_of=lambda name: 2 * size_of(connection, name), most_bytes=REPLY_BYTES):
        replies = connection.pipeline([("XINFO", "STREAM", name) for name in page])
        for name, reply in zip(page, replies, strict=True):
            found[name] = reply
            if isinstance(reply, list):
                known.learn_sizes(to_shell(name), reply)
    return [found[name] for name in names]


def size_of(connection: Connection, name: bytes) -> int:
    """Return the assumed size of an entry of the stream, in bytes."""
    return connection.capabilities.sizes.get(to_shell(name), _UNKNOWN)


def sent_behind(connection: Connection, name: bytes) -> int:
    """Return the assumed size of the reply to `first_behind`, in bytes."""
    return 0 if has_nth(connection) else size_of(connection, name)


def is_forbidden_key(reply: Any) -> bool:
    """Return whether the user may run the command, but not on this key."""
    return isinstance(reply, ResponseError) and _FORBIDDEN_KEY.match(str(reply)) is not None


def _is_refusal(reply: Any) -> bool:
    """Return whether a reply is an error for a reason other than the key."""
    known = "no such key" in str(reply) or "WRONGTYPE" in str(reply) or is_forbidden_key(reply)
    return isinstance(reply, ResponseError) and not known


def _by_extensions(connection: Connection, names: Sequence[bytes]) -> dict[bytes, Any]:
    """Return states found by the engine's own commands; empty if the user may not call them."""
    commands: list[Command] = []
    for name in names:
        commands += [("PS.STATE", name), ("XINFO", "GROUPS", name), ("PS.NTH", name, "-", _ALL)]
        commands.append(("MEMORY", "USAGE", name))
    replies = connection.pipeline(commands)
    found: dict[bytes, Any] = {}
    for name, state, groups, end, used in zip(names, *(replies[at::4] for at in range(4)), strict=True):
        if any(map(_is_refusal, (state, groups, end))):
            connection.capabilities.mark_missing("PS.NTH")
            return {}
        if not isinstance(state, list) or not isinstance(groups, list):
            found[name] = state if state is not None else ResponseError("ERR no such key")
            continue
        generated, length, first, added, deleted, _ = state
        found[name] = [
            *(b"length", length, b"first-entry", first, b"last-entry", end[0], b"last-generated-id", generated),
            *(b"entries-added", added, b"max-deleted-entry-id", deleted, b"groups", len(groups)),
        ]
        if isinstance(used, int):
            connection.capabilities.learn_size(to_shell(name), used // length if length else 0)
    return found


def first_behind(connection: Connection, name: bytes, position: StreamId) -> Command:
    """Return the command that finds the first entry after the position. `first_of` parses its reply."""
    if has_nth(connection):
        return ("PS.NTH", name, str(position), 1)
    return ("XRANGE", name, f"({position}", "+", "COUNT", 1)


def has_nth(connection: Connection) -> bool:
    """Return whether the server has PS.NTH."""
    return connection.capabilities.has("PS.NTH")


def first_of(reply: Any) -> StreamId | None:
    """Return the ID in a reply to `first_behind`; None if there is no entry."""
    if not reply:
        return None
    if isinstance(reply[0], list):
        return StreamId.parse(reply[0][0])
    return None if reply[0] is None else StreamId.parse(reply[0])


_SCANNED = 1000  # keys that the server scans per reply
_MEMORY_SAMPLES = 5  # nodes of the stream that MEMORY USAGE samples


@dataclass(frozen=True, kw_only=True)
class Stream(StreamState):
    """State of a stream at one moment. `last_entry`: ID of the last existing entry.

    `bytes` is the server's estimate; None if it was not requested or not permitted. `rate`: entries per second; None if
    it was not measured.
    """

    name: bytes
    last_entry: StreamId | None
    groups: int
    bytes: int | None = None
    rate: float | None = None

    @property
    def removed(self) -> int | None:
        """Number of entries that were trimmed or deleted."""
        return None if self.entries_added is None else max(0, self.entries_added - self.length)

    @property
    def has_gaps(self) -> bool:
        """Whether an entry after the first existing one was deleted."""
        return self.first_id is not None and self.max_deleted_id > self.first_id

    def average_rate(self, now: int) -> float | None:
        """Return entries per second from the first existing entry until now.

        Returns None if the stream has no entries, or if their IDs are not times. `now`: milliseconds since 1970. The
        average includes the time since the last entry, so it falls while the stream is idle.
        """
        first, last = self.first_id, self.last_entry
        if first is None or last is None or now <= first.ms or first.ms < now // 2 or last.ms > now:
            return None
        return self.length * 1000 / (now - first.ms)


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
            cursor, page = _on(connection, endpoint, command)
            yield page
            if int(cursor) == 0:
                break


def _on(connection: Connection, endpoint: Endpoint, command: Command) -> Any:
    """Send a command to one server, since a cursor is valid only there."""
    link = None
    try:
        link = connection.link_to(endpoint)
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
        for name, reply, used in zip(page, states(connection, page), sizes, strict=True):
            if isinstance(reply, ResponseError):
                if forbidden is not None and is_forbidden_key(reply):
                    forbidden.add(name)
                    continue
                problem = failure(connection, ("XINFO", "STREAM", name), reply)
                if problem.condition in ("NO_SUCH_STREAM", "NOT_A_STREAM"):
                    continue
                raise problem
            yield parsed(name, reply, used if isinstance(used, int) else None)


def find(connection: Connection, name: bytes) -> Stream | None:
    """Return one stream; None if it does not exist."""
    return next(read_streams(connection, [name], memory=False), None)


def need(connection: Connection, name: bytes) -> Stream:
    """Return one stream with its memory usage. Raises NO_SUCH_STREAM and NOT_A_STREAM."""
    commands: list[Command] = [("XINFO", "STREAM", name)]
    (reply,) = ask_all(connection, commands)
    (used,) = connection.pipeline([("MEMORY", "USAGE", name, "SAMPLES", _MEMORY_SAMPLES)])
    return parsed(name, reply, used if isinstance(used, int) else None)


def parsed(name: bytes, reply: Any, used: int | None = None) -> Stream:
    """Return a reply of XINFO STREAM as a stream. The reply contains the first and last entry, or only their IDs."""
    info = pairs(reply)
    last = info.get(b"last-entry")
    return Stream(
        **vars(stream_state(reply, None)),
        name=name,
        last_entry=StreamId.parse(last[0] if isinstance(last, list) else last) if last else None,
        groups=int(info[b"groups"]),
        bytes=used,
    )


def behind(connection: Connection, requested: Sequence[tuple[Stream, StreamId]]) -> list[Backlog]:
    """Return the number of entries after a position of each stream: counted within a common budget, otherwise
    estimated.
    """
    counted = [Asked(stream.name, stream, position) for stream, position in requested]
    return backlogs(connection, counted, Budget())
