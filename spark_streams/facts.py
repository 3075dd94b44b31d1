"""Server facts: the one door through which planning learns about streams and groups, and tells the server of progress.

`ServerFacts` is what the readers ask. `RedisFacts` answers it with the commands that every Redis or Valkey has; a
server with the engine's own commands (PS.NTH, PS.SPLIT, PS.DELIVER, PS.ACKRANGE) gets its own class here, chosen by
`facts_of`, and nobody else notices. Knows no Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import redis

from spark_streams import fetch
from spark_streams.connection import Command, Connection
from spark_streams.errors import fail
from spark_streams.ids import ZERO, StreamId

_ACK_PAGE = 10_000
_ACK_IDS = 1000
_MANY_PENDING = 20_000


@dataclass(frozen=True)
class GroupState:
    """A group: the last ID it was given, the number of entries that follow (None: unknown), and of pending ones."""

    position: StreamId
    lag: int | None
    pending: int


@dataclass(frozen=True)
class StreamState:
    """A stream that exists: the last ID it ever had, its length, its first entry's ID, and the group if it has it."""

    last: StreamId
    length: int
    first: StreamId | None
    group: GroupState | None

    def backlog(self, after: StreamId) -> tuple[int, bool]:
        """How many entries follow `after`, and whether no more can: else it is an estimate."""
        if after >= self.last or not self.length or self.first is None:
            return 0, True
        if self.group is not None and self.group.position == after and self.group.lag is not None:
            return min(self.group.lag, self.length), True
        if after < self.first:
            return self.length, True
        span = self.last.ms - self.first.ms
        part = (self.last.ms - after.ms) / span if span else 1.0
        return max(1, round(self.length * part)), False


class ServerFacts(Protocol):
    """What planning asks of a server."""

    def states(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        """Each stream's state; None where there is no such key. NOT_A_STREAM for another type's key."""
        ...

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        """See `planning.Nth`."""
        ...

    def make_group(self, stream: str, group: str, position: StreamId) -> bool:
        """Make the group, and the stream where it is missing; False if the group exists."""
        ...

    def move_group(self, stream: str, group: str, position: StreamId) -> None:
        """Set the last ID that the group was given."""
        ...

    def oldest_pending(self, stream: str, group: str, consumer: str) -> StreamId | None:
        """The smallest ID that is pending for the query's consumers: `consumer`, a dash and a number each."""
        ...

    def acknowledge(self, stream: str, group: str, consumer: str, upto: StreamId) -> None:
        """Acknowledge all entries up to `upto` that are pending for the query's consumers."""
        ...


def facts_of(connection: Connection) -> ServerFacts:
    """The facts of the server at the other end."""
    return RedisFacts(connection)


class RedisFacts:
    """Facts by the commands of Redis 5 and later."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def states(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        # The group is asked after the stream: what arrives in between makes its lag larger, never too small.
        commands: list[Command] = []
        for stream in streams:
            commands.append(("XINFO", "STREAM", stream))
            if group is not None:
                commands.append(("XINFO", "GROUPS", stream))
        replies = iter(self._connection.pipeline(commands))
        found: dict[str, StreamState | None] = {}
        for stream in streams:
            state = self._checked(stream, next(replies), "XINFO STREAM")
            groups = self._checked(stream, next(replies), "XINFO GROUPS") if group is not None else None
            found[stream] = None if state is None else _stream_state(state, _group_state(groups, group))
        return found

    def _checked(self, stream: str, reply: Any, command: str) -> Any:
        if isinstance(reply, redis.ResponseError):
            text = str(reply)
            if "no such key" in text:
                return None
            if "WRONGTYPE" in text or "wrong kind of value" in text:
                fail("NOT_A_STREAM", stream=stream, address=self._connection.address)
            fail("SERVER_REFUSED", address=self._connection.address, command=command, reason=text)
        return reply

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        return fetch.last_of(self._connection, stream, after, count, upto)

    def make_group(self, stream: str, group: str, position: StreamId) -> bool:
        (reply,) = self._connection.pipeline([("XGROUP", "CREATE", stream, group, str(position), "MKSTREAM")])
        if isinstance(reply, redis.ResponseError):
            if "BUSYGROUP" in str(reply) or "already exists" in str(reply):
                return False
            self._checked(stream, reply, "XGROUP CREATE")
        return True

    def move_group(self, stream: str, group: str, position: StreamId) -> None:
        self._connection.command("XGROUP", "SETID", stream, group, str(position))

    def oldest_pending(self, stream: str, group: str, consumer: str) -> StreamId | None:
        _, counts = self._pending(stream, group, consumer)
        asked: list[Command] = [("XPENDING", stream, group, "-", "+", 1, name) for name in counts]
        replies = [self._checked(stream, reply, "XPENDING") for reply in self._connection.pipeline(asked)]
        return min((StreamId.parse(reply[0][0]) for reply in replies if reply), default=None)

    def acknowledge(self, stream: str, group: str, consumer: str, upto: StreamId) -> None:
        last, counts = self._pending(stream, group, consumer)
        for name, count in counts.items():
            if last <= upto and count > _MANY_PENDING:
                # Removing the consumer takes all it has pending at a fifth of the cost of naming each entry.
                self._connection.command("XGROUP", "DELCONSUMER", stream, group, name)
            else:
                self._acknowledge_one_by_one(stream, group, name, upto)

    def _pending(self, stream: str, group: str, consumer: str) -> tuple[StreamId, dict[bytes, int]]:
        """The group's largest pending ID, and how many entries each of the query's consumers has pending."""
        (summary,) = self._connection.pipeline([("XPENDING", stream, group)])
        if isinstance(summary, redis.ResponseError) and "NOGROUP" in str(summary):
            return ZERO, {}  # no such stream or group: nothing is pending there
        self._checked(stream, summary, "XPENDING")
        ours = re.compile(re.escape(consumer.encode()) + rb"-[0-9]+")
        counts = {name: int(count) for name, count in summary[3] or () if ours.fullmatch(name)}
        return StreamId.parse(summary[2]) if summary[0] else ZERO, counts

    def _acknowledge_one_by_one(self, stream: str, group: str, consumer: bytes, upto: StreamId) -> None:
        while True:
            rows = self._connection.command("XPENDING", stream, group, "-", str(upto), _ACK_PAGE, consumer)
            ids = [row[0] for row in rows]
            acks = [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
            for reply in self._connection.pipeline(acks):
                self._checked(stream, reply, "XACK")
            if len(ids) < _ACK_PAGE:
                return


def _pairs(reply: Any) -> dict[bytes, Any]:
    return dict(zip(reply[0::2], reply[1::2], strict=True))


def _stream_state(reply: Any, group: GroupState | None) -> StreamState:
    said = _pairs(reply)
    first = said.get(b"first-entry")
    return StreamState(
        last=StreamId.parse(said[b"last-generated-id"]),
        length=int(said[b"length"]),
        first=StreamId.parse(first[0]) if first else None,
        group=group,
    )


def _group_state(replies: Any, group: str | None) -> GroupState | None:
    for reply in replies or ():
        said = _pairs(reply)
        if group is not None and said[b"name"] == group.encode():
            lag = said.get(b"lag")
            position = StreamId.parse(said[b"last-delivered-id"])
            return GroupState(position, None if lag is None else int(lag), int(said[b"pending"]))
    return None


def position_of(state: StreamState | None) -> StreamId:
    """The last ID a stream ever had; 0-0 for one that does not exist yet."""
    return ZERO if state is None else state.last
