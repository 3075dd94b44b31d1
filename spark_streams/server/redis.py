"""Server facts by the commands of Redis 5 and later: what counts entries has to read them.

Owns how a stream is counted, split, delivered and acknowledged where no command does it. Nothing here decides which
rows a partition yields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import redis

from spark_streams.client.connection import Command, Connection, Link
from spark_streams.errors import fail
from spark_streams.read.offsets import Cut
from spark_streams.read.planning import Range
from spark_streams.server import sampling, xrange
from spark_streams.server.api import GroupState, StreamState
from spark_streams.stream_id import ZERO, StreamId

_ACK_PAGE = 10_000
_ACK_IDS = 1000
_MANY_PENDING = 20_000
_DELIVER_PAGE = 10_000
_SAMPLE = 100
_COUNTED = 100_000  # so many entries are counted rather than estimated
_SCAN_PAGE = 1000


class RedisFacts:
    """Facts by the commands of Redis 5 and later."""

    counts = False

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

    def state_at_once(self, stream: str, group: str) -> StreamState | None:
        """As `states`, of one stream, with its group at the same moment."""
        asked: list[Command] = [("XINFO", "STREAM", stream), ("XINFO", "GROUPS", stream)]
        reply = self._connection.pipeline([("MULTI",), *asked, ("EXEC",)])[-1]
        said = self._checked(stream, reply, "EXEC")
        state, groups = (self._checked(stream, one, "XINFO") for one in said)
        return None if state is None else _stream_state(state, _group_state(groups, group))

    def _checked(self, stream: str, reply: Any, command: str) -> Any:
        if isinstance(reply, redis.ResponseError):
            text = str(reply)
            if "no such key" in text:
                return None
            if "WRONGTYPE" in text or "wrong kind of value" in text:
                fail("NOT_A_STREAM", stream=stream, address=self._connection.address)
            fail("SERVER_REFUSED", address=self._connection.address, command=command, reason=text)
        return reply

    def discover(self, pattern: str) -> list[str]:
        found = set[bytes]().union(*self._connection.of_masters(lambda link: self._scanned(link, pattern)))
        for name in found:
            try:
                name.decode()
            except UnicodeDecodeError:
                fail("STREAM_NAME_NOT_TEXT", pattern=pattern, stream=repr(name)[2:-1])
        return sorted(name.decode() for name in found)

    def _scanned(self, link: Link, pattern: str) -> set[bytes]:
        found: set[bytes] = set()
        cursor: bytes | int = 0
        while True:
            scan: Command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_PAGE, "TYPE", "stream")
            (reply,) = link.pipeline([scan])
            cursor, names = self._checked(pattern, reply, "SCAN")
            found.update(names)
            if int(cursor) == 0:
                return found

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        return xrange.last_of(self._connection, stream, after, count, upto)

    def count(self, stream: str, after: StreamId, upto: StreamId) -> int:
        return xrange.last_of(self._connection, stream, after, 2**63 - 1, upto)[1]

    def split(self, part: Range, parts: int, most: int | None, *, exact: bool) -> list[Cut]:
        state = self.states([part.stream], None)[part.stream]
        if state is None:
            return [(part.upto, None)]
        about, _ = state.backlog(part.after)
        if exact or most is not None or about <= _COUNTED:
            grid = max(1, about // (2 * _COUNTED))
            if most is not None:
                grid = min(grid, most)
            marks, total = xrange.marks(self._connection, part.stream, part.after, part.upto, grid)
            return sampling.cut(marks, grid, total, part.upto, parts, most)
        probes = sampling.probes(max(part.after, (state.first or part.after).before()), part.upto, parts)
        commands: list[Command] = [
            ("XRANGE", part.stream, str(at), str(part.upto), "COUNT", sampling.WINDOW) for at in probes
        ]
        windows = []
        for reply in self._connection.pipeline(commands):
            rows = self._checked(part.stream, reply, "XRANGE")
            windows.append([StreamId.parse(row[0]) for row in rows])
        return [(upto, None) for upto in sampling.estimated(probes, windows, part.upto, parts)]

    def entry_bytes(self, stream: str, after: StreamId) -> float:
        return xrange.average_bytes(self._connection, stream, after, _SAMPLE)

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
        _, counts, _ = self._pending(stream, group, consumer)
        asked: list[Command] = [("XPENDING", stream, group, "-", "+", 1, name) for name in counts]
        replies = [self._checked(stream, reply, "XPENDING") for reply in self._connection.pipeline(asked)]
        return min((StreamId.parse(reply[0][0]) for reply in replies if reply), default=None)

    def deliver(self, parts: Sequence[Range], group: str, consumer: str, position: StreamId) -> bool:
        if len(parts) < 2:
            return False
        stream = parts[0].stream

        def renewed() -> list[Command]:
            state = self.states([stream], group)[stream]
            if state is None or state.group is None:
                return []
            return self._deliveries(parts, group, consumer, state.group.position)

        commands = self._deliveries(parts, group, consumer, position)
        if commands:
            # Received raw where replies cannot be skipped: nobody needs them as objects.
            self._connection.receive(self._connection.request(commands, renewed))
        return True

    def _deliveries(self, parts: Sequence[Range], group: str, consumer: str, position: StreamId) -> list[Command]:
        commands: list[Command] = []
        skips = self._connection.can_skip_replies()
        for part in parts:
            if part.upto <= position:
                continue
            if part.count is None or part.after < position:
                left = self.count(part.stream, max(part.after, position), part.upto)
            else:
                left = part.count
            name = f"{consumer}-{part.index}"
            while left > 0:
                step = min(left, _DELIVER_PAGE)
                if skips:
                    commands.append(("CLIENT", "REPLY", "SKIP"))
                commands.append(("XREADGROUP", "GROUP", group, name, "COUNT", step, "STREAMS", part.stream, ">"))
                left -= step
        if commands and skips:
            commands.append(xrange.nothing(parts[0].stream))
        return commands

    def acknowledge(self, stream: str, group: str, consumer: str, upto: StreamId) -> None:
        last, counts, _ = self._pending(stream, group, consumer)
        for name, count in counts.items():
            if last <= upto and count > _MANY_PENDING:
                # Removing the consumer takes all it has pending at a fifth of the cost of naming each entry.
                self._connection.command("XGROUP", "DELCONSUMER", stream, group, name)
            else:
                self.acknowledge_consumer(stream, group, name, upto)

    def _pending(self, stream: str, group: str, consumer: str) -> tuple[StreamId, dict[bytes, int], int]:
        """The group's largest pending ID, how many entries each of the query's consumers has pending, and others."""
        (summary,) = self._connection.pipeline([("XPENDING", stream, group)])
        if isinstance(summary, redis.ResponseError) and "NOGROUP" in str(summary):
            return ZERO, {}, 0  # no such stream or group: nothing is pending there
        self._checked(stream, summary, "XPENDING")
        ours = re.compile(re.escape(consumer.encode()) + rb"-[0-9]+")
        counts = {name: int(count) for name, count in summary[3] or () if ours.fullmatch(name)}
        others = int(summary[0]) - sum(counts.values())
        return StreamId.parse(summary[2]) if summary[0] else ZERO, counts, others

    def acknowledge_consumer(self, stream: str, group: str, consumer: bytes, upto: StreamId) -> None:
        """Acknowledge what one consumer has pending up to an ID."""
        while True:
            rows = self._connection.command("XPENDING", stream, group, "-", str(upto), _ACK_PAGE, consumer)
            ids = [row[0] for row in rows]
            acks = [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
            for reply in self._connection.pipeline(acks):
                self._checked(stream, reply, "XACK")
            if len(ids) < _ACK_PAGE:
                return

    def unfinished(self, stream: str) -> StreamId | None:
        (reply,) = self._connection.pipeline([("XINFO", "GROUPS", stream)])
        groups = [_pairs(group) for group in self._checked(stream, reply, "XINFO GROUPS") or ()]
        if not groups:
            return None
        summaries = self._connection.pipeline([("XPENDING", stream, group[b"name"]) for group in groups])
        smallest: list[StreamId] = []
        for group, summary in zip(groups, summaries, strict=True):
            smallest.append(StreamId.parse(group[b"last-delivered-id"]).next())
            if self._checked(stream, summary, "XPENDING")[0]:
                smallest.append(StreamId.parse(summary[1]))
        return min(smallest)

    def trim(self, stream: str, before: StreamId) -> int:
        return int(self._connection.command("XTRIM", stream, "MINID", "=", str(before)))


def _pairs(reply: Any) -> dict[bytes, Any]:
    return dict(zip(reply[0::2], reply[1::2], strict=True))


def _stream_state(reply: Any, group: GroupState | None) -> StreamState:
    said = _pairs(reply)
    first = said.get(b"first-entry")
    added = said.get(b"entries-added")
    return StreamState(
        last=StreamId.parse(said[b"last-generated-id"]),
        length=int(said[b"length"]),
        first=StreamId.parse(first[0]) if first else None,
        group=group,
        added=None if added is None else int(added),
        deleted=StreamId.parse(said.get(b"max-deleted-entry-id", b"0-0")),
    )


def _group_state(replies: Any, group: str | None) -> GroupState | None:
    for reply in replies or ():
        said = _pairs(reply)
        if group is not None and said[b"name"] == group.encode():
            lag, read = said.get(b"lag"), said.get(b"entries-read")
            position = StreamId.parse(said[b"last-delivered-id"])
            return GroupState(
                position,
                None if lag is None else int(lag),
                int(said[b"pending"]),
                None if read is None else int(read),
            )
    return None
