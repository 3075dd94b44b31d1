"""Delivery of ranges to a group, and their acknowledgement, on any Redis, which has no single command for either.

XREADGROUP delivers the next entries of a stream; it accepts a count instead of IDs. So this module determines how many
entries the consumer reads, and which entries remain to be delivered after a broken connection.

Finding the end of a batch of n entries requires going through them once, and so does their delivery. Therefore
`DeliveredEntries` delivers the n entries first. The positions that the group reaches are the batch's end and the ends
of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.refusals import refused
from streamclient.replies import parse
from streamclient.streams import pages
from streamclient.streams.counting import Entries, Nth, cut
from streamclient.streams.groups import Groups, Pending, pending_of
from streamclient.streams.states import Cut, GroupState, Range, States, StreamState, checked, group_state
from streamwire.stream_id import LAST, StreamId

#: A range, and the group's last-delivered ID in its stream. Entries up to this ID are skipped.
Batch = tuple[Range, StreamId]

_STREAMS = 500  # streams in one request to deliver
_MARKS = 500  # IDs that are found in a delivery, to cut it into parts of about the same size


@dataclass(frozen=True)
class Limits:
    """Numbers of entries. `page`: in one XREADGROUP. `acknowledged`: pending entries of a consumer that are listed
    and acknowledged at a time.

    `deleted`: if more entries are pending, finished consumers are deleted, which drops their entries. `found`: from
    this number on, a delivery finds the end and the cuts of a batch.
    """

    page: int = 10_000
    acknowledged: int = 1_000
    deleted: int = 20_000
    found: int = 20_000


class GroupReads:
    """Delivers to a consumer of a group by XREADGROUP, whose replies are not needed.

    `states` and `entries` use the same `connection`. `page`: maximum number of entries in one request.
    """

    def __init__(
        self, connection: Connection, states: States, entries: Entries, group: str, consumer: str, page: int
    ) -> None:
        self._states = states
        self._entries = entries
        self._connection = connection
        self._group = group
        self._consumer = consumer
        self._page = page

    def deliver(self, batches: Sequence[Batch]) -> None:
        """Deliver one range of each stream. Raises NOT_PERMITTED before any change."""
        if not batches:
            return
        self._check_permission(batches[0][0].stream)
        parts = self._counted(batches)
        # If replies cannot be skipped, each is received as bytes and not parsed.
        skips = self._connection.can_skip_replies()
        for some in self._grouped(parts) if skips else ([part] for part in parts):
            self._deliver(some)

    def advance(self, stream: str, count: int, grid: int) -> list[GroupState | None]:
        """Deliver the next `count` entries of a stream. Return the group's state after every `grid` of them, and after
        all. A state is None, and states are missing, if a connection broke. Raises NOT_PERMITTED.
        """
        self._check_permission(stream)
        steps = [min(grid, count - done) for done in range(0, count, grid)]
        at_once = max(1, self._page // (2 * grid))
        found: list[GroupState | None] = []
        sent: list[bytes] = []
        for at in range(0, len(steps), at_once):
            commands: list[Command] = []
            for step in steps[at : at + at_once]:
                commands += [("CLIENT", "REPLY", "SKIP"), self._read(stream, step), ("XINFO", "GROUPS", stream)]
            sent.append(self._connection.request(commands, lambda: [pages.empty_read(stream)]))
            if len(sent) > 1:  # the server has one request to execute while this process handles the replies to another
                found += self._received(sent.pop(0))
        for token in sent:
            found += self._received(token)
        return found

    def _received(self, token: bytes) -> list[GroupState | None]:
        """Return the states of the group in the replies to a request of `advance`."""
        buffer, stop = self._connection.receive(token)
        replies = parse(bytes(buffer[:stop]))
        return [group_state(reply, self._group) if isinstance(reply, list) else None for reply in replies]

    def _read(self, stream: str, count: int) -> Command:
        return ("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", count, "STREAMS", stream, ">")

    def _check_permission(self, stream: str) -> None:
        """Raise NOT_PERMITTED if the user may not read for the group."""
        # Deliveries suppress replies, including errors. So test the permission by reading a consumer's history from the
        # last ID but one (the largest ID means '>'), which has no effect. The permission may be lost at any time.
        read: Command = ("XREADGROUP", "GROUP", self._group, self._consumer, "STREAMS", stream, str(LAST.before()))
        (reply,) = self._connection.pipeline([read])
        if isinstance(reply, ResponseError) and str(reply).startswith("NOPERM"):
            raise refused(self._connection.address, "XREADGROUP", reply, stream)

    def _counted(self, batches: Sequence[Batch]) -> list[Range]:
        """Return the rest of each range after the group's position, with its number of entries.

        Ranges without a known number are counted together.
        """
        rests = [
            part if part.after >= position else replace(part, after=position, count=None)
            for part, position in batches
            if part.upto > position
        ]
        unknown = [part for part in rests if part.count is None]
        states = self._states.of([part.stream for part in unknown], None)
        # At least 1, since all entries of the stream may have been removed, and a count is positive.
        lengths = {stream: 1 if state is None else max(1, state.length) for stream, state in states.items()}
        found = self._entries.nths([(part.stream, part.after, lengths[part.stream], part.upto) for part in unknown])
        counts = {part: count for part, (_, count) in zip(unknown, found, strict=True)}
        return [replace(part, count=counts.get(part, part.count)) for part in rests]

    def _grouped(self, parts: Sequence[Range]) -> Iterator[list[Range]]:
        """Yield lists of ranges. Each list has streams of one node and a limited number of entries."""
        for of_node in self._connection.by_node(parts, lambda part: part.stream):
            some: list[Range] = []
            entries = 0
            for part in of_node:
                some.append(part)
                entries += part.count or 0
                if entries >= self._page or len(some) == _STREAMS:
                    yield some
                    some, entries = [], 0
            if some:
                yield some

    def _deliver(self, parts: Sequence[Range]) -> None:
        """Deliver ranges of one node's streams, a page at a time, since other clients of the server wait during a
        request. If the server refuses a command, the remaining entries are delivered stream by stream. After a broken
        connection, one request delivers all remaining entries.
        """
        resumed = False

        def remaining() -> list[Command]:
            nonlocal resumed
            resumed = True
            return self._remaining(parts)

        for page in self._commands(parts):
            buffer, stop = self._connection.receive(self._connection.request(page, remaining))
            if resumed:
                return
            if len(parts) > 1 and buffer[:stop].count(b"*0\r\n") * len(b"*0\r\n") < stop:
                for part in parts:
                    again = partial(self._remaining, [part])
                    left = again()
                    if left:
                        self._connection.receive(self._connection.request(left, again))
                return

    def _remaining(self, parts: Sequence[Range]) -> list[Command]:
        """Return the commands that deliver the remaining entries of these ranges to the group."""
        states = self._states.of([part.stream for part in parts], self._group)
        left = [
            (part, state.group.last_delivered_id)
            for part in parts
            if (state := states[part.stream]) is not None and state.group is not None
        ]
        return [command for page in self._commands(self._counted(left)) for command in page]

    def _commands(self, parts: Sequence[Range]) -> Iterator[list[Command]]:
        """Yield the commands that deliver the next entries of each stream, page by page.

        If replies are skipped, the commands of each stream and each page end with a command that reads nothing.
        """
        skips = self._connection.can_skip_replies()
        page: list[Command] = []
        entries = 0
        for part in parts:
            left = part.count or 0
            while left > 0:
                count = min(left, self._page)
                left -= count
                if skips:
                    page.append(("CLIENT", "REPLY", "SKIP"))
                page.append(self._read(part.stream, count))
                entries += count
                if entries >= self._page:
                    yield [*page, pages.empty_read(part.stream)] if skips else page
                    page, entries = [], 0
            if page and skips:
                page.append(pages.empty_read(part.stream))
        if page:
            yield page


@dataclass(frozen=True)
class _Delivered:
    """Delivered entries of a stream: their range, their number, and the ID of every `grid`-th entry."""

    after: StreamId
    upto: StreamId
    count: int
    grid: int
    marks: Sequence[StreamId]


class DeliveredEntries(Entries):
    """Entries whose ends and cuts are found by their delivery to a group, if the group is at their start.

    `states`: the streams and their groups. `hold` is called with a stream before its entries are delivered.
    """

    counted = 2**62  # all parts are counted, so that every missing entry is noticed

    def __init__(
        self,
        connection: Connection,
        reader: States,
        reads: GroupReads,
        states: Mapping[str, StreamState | None],
        group: str,
        hold: Callable[[Iterable[str]], None],
    ) -> None:
        super().__init__(connection, reader)
        self._reads = reads
        self._before = states
        self._group = group
        self._hold = hold
        self._delivered: dict[str, _Delivered] = {}
        #: Positions of the groups that this object has moved.
        self.reached: dict[str, StreamId] = {}

    def ends(self, requested: Sequence[Nth]) -> list[tuple[StreamId, int]]:
        delivered = [self._deliver(*request) for request in requested]
        pairs = zip(requested, delivered, strict=True)
        answers = iter(self.nths([request for request, found in pairs if found is None]))
        return [next(answers) if found is None else (found.upto, found.count) for found in delivered]

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None) -> list[list[Cut]]:
        cuts: dict[Range, list[Cut]] = {}
        for whole, parts in wholes:
            count = _available(self._before.get(whole.stream))
            found = self._deliver(whole.stream, whole.after, count, whole.upto)
            if found is not None and found.upto == whole.upto and (most is None or found.grid <= most):
                cuts[whole] = cut(found.marks, found.grid, found.count, whole.upto, parts, most)
        others = iter(super().splits([each for each in wholes if each[0] not in cuts], most))
        return [cuts[whole] if whole in cuts else next(others) for whole, _ in wholes]

    def _deliver(self, stream: str, after: StreamId, count: int, upto: StreamId) -> _Delivered | None:
        """Deliver the next `count` entries if the group is at `after` and has as many up to `upto`. Return what this
        object has delivered after `after`; None if that is unknown.

        They are those of the batch only if no other client has read from the group meanwhile, and no connection broke.
        The number of entries that the group has read shows this. Otherwise the entries are counted.
        """
        state = self._before.get(stream)
        if stream in self.reached:
            known = self._delivered.get(stream)
            return known if known is not None and known.after == after else None
        if state is None or state.group is None or state.group.last_delivered_id != after or upto != state.last_id:
            return None
        is_many = Delivery.limits.found <= count <= _available(state)
        if not (is_many and self._connection.can_skip_replies()):
            return None
        self._hold([stream])
        grid = max(1, count // _MARKS)
        found = self._reads.advance(stream, count, grid)
        read = state.group.entries_read or 0
        expected = [read + min(done + grid, count) for done in range(0, count, grid)]
        if [each and each.entries_read for each in found] == expected:
            ids = [each.last_delivered_id for each in found if each is not None]
            self.reached[stream] = ids[-1]
            if after < ids[-1] <= upto:
                self._delivered[stream] = _Delivered(after, ids[-1], count, grid, ids[: count // grid])
            return self._delivered.get(stream)
        now = self._states.of([stream], self._group)[stream]
        self.reached[stream] = after if now is None or now.group is None else now.group.last_delivered_id
        return None


def _available(state: StreamState | None) -> int:
    """Return the number of entries between the positions of a group and of the last entry; 0 if it is unknown."""
    group = None if state is None else state.group
    if state is None or group is None or group.lag is None or group.entries_read is None:
        return 0
    return min(group.lag, state.length, (state.entries_added or 0) - group.entries_read)


class Delivery:
    """Delivery of ranges to a consumer by XREADGROUP, and acknowledgement by XACK or by deletion of finished consumers.

    `prefix` is the prefix of a query's consumer names; a hyphen and a number are appended to it. The consumer that gets
    the entries of ranges has the number 0.
    """

    limits = Limits()

    def __init__(self, connection: Connection, groups: Groups, states: States, entries: Entries) -> None:
        self._connection = connection
        self._groups = groups
        self._states = states
        self._entries = entries

    def deliver(self, batches: Sequence[Batch], group: str, prefix: str) -> None:
        """Add one range of each stream to the group's pending list."""
        self._reads(group, prefix).deliver(batches)

    def entries(
        self,
        states: Mapping[str, StreamState | None],
        group: str,
        prefix: str,
        hold: Callable[[Iterable[str]], None],
    ) -> DeliveredEntries:
        """Return `Entries` that find the ends and cuts of the group's next batch by delivering it."""
        return DeliveredEntries(self._connection, self._states, self._reads(group, prefix), states, group, hold)

    def _reads(self, group: str, prefix: str) -> GroupReads:
        return GroupReads(self._connection, self._states, self._entries, group, f"{prefix}-0", self.limits.page)

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        """Acknowledge the entries pending for the query's consumers, in each stream up to the ID in `uptos`."""
        found = pending_of(self._connection, list(uptos), group, prefix)
        left = {(stream, name): count for stream, (_, counts, _) in found.items() for name, count in counts.items()}
        if sum(left.values()) > self.limits.deleted:
            # Deleting a consumer drops all its pending entries, at a fifth of the cost of an XACK with all their IDs.
            finished = self._finished_consumers(found, uptos, group)
            self._groups.delete_consumers(finished, group)
            for consumer in finished:
                del left[consumer]
        consumers, most = [*left], self.limits.acknowledged
        while consumers:
            requested: list[Command] = [
                ("XPENDING", stream, group, "-", str(uptos[stream]), most, name) for stream, name in consumers
            ]
            pending = [
                [row[0] for row in checked(self._connection, stream, reply, "XPENDING") or ()]
                for (stream, _), reply in zip(consumers, self._connection.pipeline(requested), strict=True)
            ]
            listed = [*zip(consumers, pending, strict=True)]
            self._connection.commands([("XACK", stream, group, *ids) for (stream, _), ids in listed if ids])
            consumers = [consumer for consumer, ids in listed if len(ids) == most]

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
