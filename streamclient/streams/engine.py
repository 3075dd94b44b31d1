"""States, entries and deliveries by the engine's own commands (PS.*), which work on ranges without sending entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from streamclient.connection import Command
from streamclient.refusals import RefusedForNowError
from streamclient.retry import is_transient
from streamclient.streams.counting import Entries
from streamclient.streams.delivery import Delivery
from streamclient.streams.groups import pending_of
from streamclient.streams.model import Cut, GroupState, Range, StreamState, checked
from streamclient.streams.stream_states import States
from streamwire.stream_id import StreamId

_ALL = 2**62  # larger than the number of entries in any stream


class EngineStates(States):
    """States by PS.STATE, which reads a stream and its group at the same moment."""

    def of(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        named: Command = () if group is None else (group,)
        replies = self._connection.pipeline([("PS.STATE", stream, *named) for stream in streams])
        replied = zip(streams, replies, strict=True)
        return {stream: _state(checked(self._connection, stream, reply, "PS.STATE")) for stream, reply in replied}

    def requests(self, streams: Sequence[str], group: str, scripted: Collection[str] = frozenset()) -> list[Command]:
        del scripted
        return [("PS.STATE", stream, group) for stream in streams]

    def parsed(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        del group  # PS.STATE replied only with this group
        for reply in replies:
            if is_transient(reply):
                raise RefusedForNowError(str(reply))
        replied = zip(streams, replies, strict=True)
        return {stream: _state(checked(self._connection, stream, reply, "PS.STATE")) for stream, reply in replied}

    def consistent(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        return self.of(streams, group)  # PS.STATE reads the stream and its group at the same moment

    def scripted(self, streams: Iterable[str]) -> frozenset[str]:
        del streams  # PS.STATE sends no entries
        return frozenset()


class EngineEntries(Entries):
    """Numbers and positions by PS.NTH and PS.SPLIT."""

    counts_cheaply = True

    def nths(self, requested: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        found: list[tuple[StreamId, int]] = []
        beyond: list[int] = []
        replies = self._connection.commands(
            [("PS.NTH", stream, str(after), count) for stream, after, count, _ in requested]
        )
        for (_, _, count, upto), (entry_id, number) in zip(requested, replies, strict=True):
            at = None if entry_id is None else StreamId.parse(entry_id)
            if at is not None and at > upto:
                beyond.append(len(found))
            found.append((at if at is not None and int(number) == count else upto, int(number)))
        counts = self.counts([(stream, after, upto) for stream, after, _, upto in (requested[at] for at in beyond)])
        for index, number in zip(beyond, counts, strict=True):
            found[index] = requested[index][3], number
        return found

    def counts(self, requested: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        ends = [(stream, at) for stream, *both in requested for at in both]
        replies = self._connection.pipeline([("PS.NTH", stream, str(at), _ALL) for stream, at in ends])
        replied = zip(ends, replies, strict=True)
        numbers = [int(checked(self._connection, stream, reply, "PS.NTH")[1]) for (stream, _), reply in replied]
        return [behind - beyond for behind, beyond in zip(numbers[::2], numbers[1::2], strict=True)]

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None, *, exact: bool) -> list[list[Cut]]:
        del exact  # PS.SPLIT always counts
        if most is not None:
            counts = self.counts([(whole.stream, whole.after, whole.upto) for whole, _ in wholes])
            counted = zip(wholes, counts, strict=True)
            wholes = [(whole, max(parts, -(-count // most))) for (whole, parts), count in counted]
        replies = self._connection.commands(
            [("PS.SPLIT", whole.stream, str(whole.after), str(whole.upto), parts) for whole, parts in wholes]
        )
        return [
            [(StreamId.parse(upto), int(count)) for upto, count in reply] or [(whole.upto, 0)]
            for (whole, _), reply in zip(wholes, replies, strict=True)
        ]


class EngineDelivery(Delivery):
    """Delivery by PS.DELIVER, acknowledgement by PS.ACKRANGE."""

    def deliver(self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str) -> None:
        left = [part for parts, position in batches for part in parts if part.upto > position]
        commands: list[Command] = [
            ("PS.DELIVER", part.stream, group, f"{prefix}-{part.index}", str(part.after), str(part.upto))
            for part in left
        ]
        for part, reply in zip(left, self._connection.pipeline(commands), strict=True):
            checked(self._connection, part.stream, reply, "PS.DELIVER")

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        ours: list[str] = []
        shared: dict[str, StreamId] = {}
        for stream, (_, counts, others) in pending_of(self._connection, list(uptos), group, prefix).items():
            if others:
                # PS.ACKRANGE acknowledges for every consumer, and some entries in the range are not this query's.
                shared[stream] = uptos[stream]
            elif counts:
                ours.append(stream)
        acks: list[Command] = [("PS.ACKRANGE", stream, group, "0-0", str(uptos[stream])) for stream in ours]
        for stream, reply in zip(ours, self._connection.pipeline(acks), strict=True):
            checked(self._connection, stream, reply, "PS.ACKRANGE")
        if shared:
            super().acknowledge(shared, group, prefix)


def _state(reply: Any) -> StreamState | None:
    if reply is None:
        return None
    last, length, first, added, deleted, group = reply
    position = None
    if group is not None:
        delivered, lag, pending, read = group
        position = GroupState(StreamId.parse(delivered), lag, pending, read)
    first_id = None if first is None else StreamId.parse(first)
    return StreamState(StreamId.parse(last), length, first_id, position, added, StreamId.parse(deleted))
