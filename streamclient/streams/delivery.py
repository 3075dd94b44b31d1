"""Delivery of ranges to a group, and their acknowledgement, on any Redis, which has no single command for either.

XREADGROUP delivers the next entries of a stream; it accepts a count instead of IDs. So this module determines how many
entries each range's consumer reads, in which order, and which entries remain to be delivered after a broken connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from streamclient.config.address import Endpoint
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError, ServerError
from streamclient.refusals import refused
from streamclient.streams import pages
from streamclient.streams.counting import Entries
from streamclient.streams.groups import Groups, Pending, pending_of
from streamclient.streams.states import Range, States, checked
from streamwire.stream_id import LAST, StreamId

#: The ranges of one stream, in order, and the group's last-delivered ID in the stream. Entries up to it are skipped.
Batch: TypeAlias = tuple[Sequence[Range], StreamId]

_STREAMS = 500  # streams in one request to deliver


@dataclass(frozen=True)
class Limits:
    """Numbers of entries. `page`: in one XREADGROUP. `acknowledged`: pending entries listed at a time.

    `deleted`: if more entries are pending, finished consumers are deleted, which drops their entries.
    """

    page: int = 10_000
    acknowledged: int = 10_000
    deleted: int = 20_000


class GroupReads:
    """Delivers to consumers of one group by XREADGROUP, whose replies are not needed.

    The name of a consumer is `prefix`, a hyphen, and the index of its range. `states` and `entries` use the same
    `connection`. `page`: maximum number of entries in one request.
    """

    def __init__(
        self, connection: Connection, states: States, entries: Entries, group: str, prefix: str, page: int
    ) -> None:
        self._states = states
        self._entries = entries
        self._connection = connection
        self._group = group
        self._prefix = prefix
        self._page = page

    def deliver(self, batches: Sequence[Batch]) -> None:
        """Deliver all ranges, each to the consumer of its index. Raises NOT_PERMITTED before any change."""
        if not batches:
            return
        self._check_permission(batches[0][0][0])
        uncounted = [
            (part, max(part.after, position))
            for parts, position in batches
            for part in parts
            if part.upto > position and (part.count is None or part.after < position)
        ]
        counts = self._counts(uncounted)
        # If replies cannot be skipped, each is received as bytes and not parsed.
        skips = self._connection.can_skip_replies()
        for some in self._grouped(batches) if skips else ([batch] for batch in batches):
            self._deliver(some, counts)

    def _check_permission(self, part: Range) -> None:
        """Raise NOT_PERMITTED if the user may not read for the group."""
        # Deliveries suppress replies, including errors. So test the permission by reading a consumer's history from the
        # last ID but one (the largest ID means '>'), which has no effect.
        if self._connection.capabilities.delivers:
            return
        stream, name = part.stream, f"{self._prefix}-{part.index}"
        read: Command = ("XREADGROUP", "GROUP", self._group, name, "STREAMS", stream, str(LAST.before()))
        (reply,) = self._connection.pipeline([read])
        if isinstance(reply, ResponseError) and str(reply).startswith("NOPERM"):
            raise refused(self._connection.address, "XREADGROUP", reply, stream)
        self._connection.capabilities.delivers = True

    def _counts(self, uncounted: Sequence[tuple[Range, StreamId]]) -> dict[Range, int]:
        """Return the number of entries of each range after a position in it. The ranges are counted together."""
        streams = {part.stream for part, _ in uncounted if part.count is None}
        # At least 1, since all entries of the stream may have been removed, and a count is positive.
        lengths = {
            stream: 1 if state is None else max(1, state.length)
            for stream, state in self._states.of([*streams], None).items()
        }
        answers = self._entries.nths(
            [
                (part.stream, position, lengths[part.stream] if part.count is None else part.count, part.upto)
                for part, position in uncounted
            ]
        )
        return {part: number for (part, _), (_, number) in zip(uncounted, answers, strict=True)}

    def _grouped(self, batches: Sequence[Batch]) -> Iterator[list[Batch]]:
        """Yield lists of batches. Each list has streams of one node and a limited number of entries."""
        nodes: dict[Endpoint | None, list[Batch]] = {}
        for batch in batches:
            nodes.setdefault(self._connection.node_of(batch[0][0].stream), []).append(batch)
        for of_node in nodes.values():
            some: list[Batch] = []
            entries = 0
            for batch in of_node:
                some.append(batch)
                entries += sum(part.count or 0 for part in batch[0])
                if entries >= self._page or len(some) == _STREAMS:
                    yield some
                    some, entries = [], 0
            if some:
                yield some

    def _deliver(self, batches: Sequence[Batch], counts: Mapping[Range, int]) -> None:
        """Deliver ranges of one node's streams, a page at a time, since other clients of the server wait during a
        request. If the server refuses a command, the remaining entries are delivered stream by stream. After a broken
        connection, one request delivers all remaining entries.
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

    def _remaining(self, wanted: Sequence[Sequence[Range]]) -> list[Command]:
        """Return the commands that deliver the remaining entries of these ranges to the group."""
        states = self._states.of([parts[0].stream for parts in wanted], self._group)
        left = [
            (parts, state.group.last_delivered_id)
            for parts in wanted
            if (state := states[parts[0].stream]) is not None and state.group is not None
        ]
        return [command for page in self._commands(left, {}) for command in page]

    def _commands(self, batches: Sequence[Batch], counts: Mapping[Range, int]) -> Iterator[list[Command]]:
        """Yield the commands that deliver the entries after the positions, page by page.

        If replies are skipped, the commands of each stream and each page end with a command that reads nothing.
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
                if entries >= self._page:
                    yield [*page, pages.empty_read(stream)] if skips else page
                    page, entries = [], 0
            if page and skips:
                page.append(pages.empty_read(stream))
        if page:
            yield page

    def _due(
        self, parts: Sequence[Range], position: StreamId, counts: Mapping[Range, int]
    ) -> Iterator[tuple[str, int]]:
        """Yield consumers, each with a number of entries to read, at most a page.

        `counts`: number of entries after the position, for ranges that have already been counted.
        """
        for part in parts:
            if part.upto <= position:
                continue
            if part in counts:
                left = counts[part]
            elif part.count is None or part.after < position:
                (left,) = self._entries.counts([(part.stream, max(part.after, position), part.upto)])
            else:
                left = part.count
            while left > 0:
                yield f"{self._prefix}-{part.index}", min(left, self._page)
                left -= self._page


_ACK_IDS = 1000  # IDs in one XACK


class Delivery:
    """Delivery of ranges to consumers by XREADGROUP, and acknowledgement by XACK or by deletion of finished consumers.

    `prefix` is the prefix of a query's consumer names; a hyphen and the index of a range are appended to it.
    """

    limits = Limits()

    def __init__(self, connection: Connection, groups: Groups, states: States, entries: Entries) -> None:
        self._connection = connection
        self._groups = groups
        self._states = states
        self._entries = entries

    def deliver(self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str) -> None:
        """Add ranges to the group's pending list, each for the consumer of its index.

        `batches` are the ranges of each stream, in order, and the group's last-delivered ID in that stream. Entries up
        to that ID are skipped.
        """
        reads = GroupReads(self._connection, self._states, self._entries, group, prefix, self.limits.page)
        reads.deliver(list(batches))

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        """Acknowledge the entries pending for the query's consumers, in each stream up to the ID in `uptos`."""
        few: list[tuple[str, bytes]] = []
        entries = 0
        found = pending_of(self._connection, list(uptos), group, prefix)
        if sum(sum(counts.values()) for _, counts, _ in found.values()) > self.limits.deleted:
            # Deleting a consumer drops all its pending entries, at a fifth of the cost of an XACK with all their IDs.
            for stream, name in self._deleted(self._finished_consumers(found, uptos, group), group):
                del found[stream][1][name]
        for stream, (_, counts, _) in found.items():
            for name, count in counts.items():
                if count > self.limits.acknowledged:
                    self._acknowledge_many(stream, group, name, uptos[stream])
                else:
                    few.append((stream, name))
                    entries += count
                if entries > self.limits.acknowledged:
                    self._acknowledge_few(few, group, uptos)
                    few, entries = [], 0
        self._acknowledge_few(few, group, uptos)

    def _deleted(self, consumers: Sequence[tuple[str, bytes]], group: str) -> Sequence[tuple[str, bytes]]:
        """Delete consumers and return them.

        If that is not permitted, return an empty tuple: the caller acknowledges their entries by ID.
        """
        try:
            if self._connection.capabilities.deletes_consumers:
                self._groups.delete_consumers(consumers, group)
                return consumers
        except ServerError as refusal:
            if refusal.condition != "NOT_PERMITTED":
                raise
            self._connection.capabilities.deletes_consumers = False
        return ()

    def _finished_consumers(
        self, pending: Mapping[str, Pending], uptos: Mapping[str, StreamId], group: str
    ) -> list[tuple[str, bytes]]:
        """Return the query's consumers that have no pending entries after the stream's ID in `uptos`."""
        done = [
            (stream, name) for stream, (last, names, _) in pending.items() if last <= uptos[stream] for name in names
        ]
        requested = [
            (stream, name) for stream, (last, names, _) in pending.items() if last > uptos[stream] for name in names
        ]
        reads: list[Command] = [
            ("XPENDING", stream, group, str(uptos[stream].next()), "+", 1, name) for stream, name in requested
        ]
        for consumer, reply in zip(requested, self._connection.pipeline(reads), strict=True):
            if not checked(self._connection, consumer[0], reply, "XPENDING"):
                done.append(consumer)
        return done

    def _acknowledge_few(
        self, consumers: Sequence[tuple[str, bytes]], group: str, uptos: Mapping[str, StreamId]
    ) -> None:
        """Acknowledge these consumers' pending entries up to the IDs in `uptos`. Each consumer has at most one page."""
        requested: list[Command] = [
            ("XPENDING", stream, group, "-", str(uptos[stream]), self.limits.acknowledged, name)
            for stream, name in consumers
        ]
        acks: list[Command] = []
        for (stream, _), reply in zip(consumers, self._connection.pipeline(requested), strict=True):
            ids = [row[0] for row in checked(self._connection, stream, reply, "XPENDING") or ()]
            acks += [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
        self._connection.commands(acks)

    def _acknowledge_many(self, stream: str, group: str, consumer: bytes, upto: StreamId) -> None:
        while True:
            (rows,) = self._connection.pipeline(
                [("XPENDING", stream, group, "-", str(upto), self.limits.acknowledged, consumer)]
            )
            ids = [row[0] for row in checked(self._connection, stream, rows, "XPENDING") or ()]
            acks = [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
            for reply in self._connection.pipeline(acks):
                checked(self._connection, stream, reply, "XACK")
            if len(ids) < self.limits.acknowledged:
                return
