"""Delivery on Redis: ranges of streams go to the consumers of a group with XREADGROUP, a page of entries at a time.

XREADGROUP delivers what comes next in a stream and takes a count, no IDs. So it owns how many entries each range's
consumer is to read, and in which order, and what is left of that after a connection broke. Acknowledging is
`streamclient.streams.redis`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from streamclient.config.address import Endpoint
from streamclient.connection import Command, Connection
from streamclient.streams.entries import xrange
from streamclient.streams.model import Range
from streamclient.streams.redis_streams import RedisStreams
from streamwire.stream_id import StreamId

#: The ranges of one stream, in order, and the group's last-delivered ID in it: what lies up to there is skipped.
Batch: TypeAlias = tuple[Sequence[Range], StreamId]

PAGE = 10_000  # entries in one XREADGROUP
_STREAMS = 500  # streams in one request to deliver


class Delivery:
    """Delivers to the consumers of one group that are called `prefix`, a hyphen, and the index of their range.

    `streams` answers what must be known of the streams, over the same `connection`.
    """

    def __init__(self, streams: RedisStreams, connection: Connection, group: str, prefix: str) -> None:
        self._streams = streams
        self._connection = connection
        self._group = group
        self._prefix = prefix

    def pages(self, batches: Sequence[Batch]) -> Iterator[None]:
        """Deliver all ranges, a page at each step."""
        begun = [
            (part, (part.stream, position, part.count, part.upto))
            for parts, position in batches
            for part in parts
            if part.count is not None and part.after < position < part.upto
        ]
        answers = self._streams.nths([asked for _, asked in begun])
        counts = {part: number for (part, _), (_, number) in zip(begun, answers, strict=True)}
        if not self._connection.can_skip_replies():
            # Replies are received as bytes, at once: they need not be parsed.
            for batch in batches:
                yield from self._deliver([batch], counts)
            return
        for some in self._together(batches):
            yield from self._deliver(some, counts)

    def _together(self, batches: Sequence[Batch]) -> Iterator[list[Batch]]:
        """The batches in groups, each of one node's streams, with not too many entries."""
        nodes: dict[Endpoint | None, list[Batch]] = {}
        for batch in batches:
            nodes.setdefault(self._connection.node_of(batch[0][0].stream), []).append(batch)
        for of_node in nodes.values():
            some: list[Batch] = []
            entries = 0
            for batch in of_node:
                some.append(batch)
                entries += sum(part.count or 0 for part in batch[0])
                if entries >= PAGE or len(some) == _STREAMS:
                    yield some
                    some, entries = [], 0
            if some:
                yield some

    def _deliver(self, batches: Sequence[Batch], counts: Mapping[Range, int]) -> Iterator[None]:
        """Deliver ranges of one node's streams, a page at a time: a server's other clients wait for one request.

        If some are refused, they are delivered stream by stream. What a broken request has left is delivered at once.
        """
        resumed = False

        def remaining() -> list[Command]:
            nonlocal resumed
            resumed = True
            return self._remaining([parts for parts, _ in batches])

        for page in self._commands(batches, counts):
            buffer, stop = self._connection.receive(self._connection.request(page, remaining))
            if resumed:
                return
            if len(batches) > 1 and buffer[:stop].count(b"*0\r\n") * len(b"*0\r\n") < stop:
                for parts, _ in batches:
                    left = self._remaining([parts])
                    if left:
                        again = partial(self._remaining, [parts])
                        self._connection.receive(self._connection.request(left, again))
                return
            yield

    def _remaining(self, wanted: Sequence[Sequence[Range]]) -> list[Command]:
        """The commands that deliver what the group has not got of the ranges of these streams."""
        states = self._streams.states([parts[0].stream for parts in wanted], self._group)
        left = [
            (parts, state.group.last_delivered_id)
            for parts in wanted
            if (state := states[parts[0].stream]) is not None and state.group is not None
        ]
        return [command for page in self._commands(left, {}) for command in page]

    def _commands(self, batches: Sequence[Batch], counts: Mapping[Range, int]) -> Iterator[list[Command]]:
        """The commands that deliver what lies behind the positions, page by page.

        Where replies are skipped, each stream's end with one that reads nothing, and each page does.
        """
        skips = self._connection.can_skip_replies()
        page: list[Command] = []
        entries = 0
        for parts, position in batches:
            stream = parts[0].stream
            for name, count in self._due(parts, position, counts):
                if skips:
                    page.append(("CLIENT", "REPLY", "SKIP"))
                page.append(("XREADGROUP", "GROUP", self._group, name, "COUNT", count, "STREAMS", stream, ">"))
                entries += count
                if entries >= PAGE:
                    yield [*page, xrange.empty_read(stream)] if skips else page
                    page, entries = [], 0
            if page and skips:
                page.append(xrange.empty_read(stream))
        if page:
            yield page

    def _due(
        self, parts: Sequence[Range], position: StreamId, counts: Mapping[Range, int]
    ) -> Iterator[tuple[str, int]]:
        """How many entries each consumer gets, a page at most; `counts` are numbers behind the position, if known."""
        for part in parts:
            if part.upto <= position:
                continue
            if part in counts:
                left = counts[part]
            elif part.count is None or part.after < position:
                left = self._streams.count(part.stream, max(part.after, position), part.upto)
            else:
                left = part.count
            while left > 0:
                yield f"{self._prefix}-{part.index}", min(left, PAGE)
                left -= PAGE
