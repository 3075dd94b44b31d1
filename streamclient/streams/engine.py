"""`StreamServer` on the engine: its own commands (PS.*) tell states and work on ranges without sending entries.

Everything without a command of its own is inherited from `RedisServer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from streamclient.connection import Command
from streamclient.refusals import RefusedForNowError
from streamclient.retry import is_transient
from streamclient.streams.model import Cut, GroupState, Range, StreamState
from streamclient.streams.redis import RedisServer
from streamwire.stream_id import StreamId

_ALL = 2**62


class EngineServer(RedisServer):
    """A server that has all of `EXTENSIONS`. `StreamServer` describes the methods."""

    counts_cheaply = True

    def states(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        named: Command = () if group is None else (group,)
        replies = self._connection.pipeline([("PS.STATE", stream, *named) for stream in streams])
        checked = zip(streams, replies, strict=True)
        return {stream: _state(self._checked(stream, reply, "PS.STATE")) for stream, reply in checked}

    def looks(self, streams: Sequence[str], group: str, scripted: Collection[str] = frozenset()) -> list[Command]:
        del scripted
        return [("PS.STATE", stream, group) for stream in streams]

    def seen(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        del group  # PS.STATE was asked for it
        for reply in replies:
            if is_transient(reply):
                raise RefusedForNowError(str(reply))
        checked = zip(streams, replies, strict=True)
        return {stream: _state(self._checked(stream, reply, "PS.STATE")) for stream, reply in checked}

    def states_at_once(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        return self.states(streams, group)  # PS.STATE tells both at the same moment

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        return self.nths([(stream, after, count, upto)])[0]

    def nths(self, asked: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        found: list[tuple[StreamId, int]] = []
        beyond: list[int] = []
        replies = self._connection.commands(
            [("PS.NTH", stream, str(after), count) for stream, after, count, _ in asked]
        )
        for (_, _, count, upto), (entry_id, number) in zip(asked, replies, strict=True):
            at = None if entry_id is None else StreamId.parse(entry_id)
            if at is not None and at > upto:
                beyond.append(len(found))
            found.append((at if at is not None and int(number) == count else upto, int(number)))
        counts = self.counts([(stream, after, upto) for stream, after, _, upto in (asked[at] for at in beyond)])
        for index, number in zip(beyond, counts, strict=True):
            found[index] = asked[index][3], number
        return found

    def count(self, stream: str, after: StreamId, upto: StreamId) -> int:
        return self.counts([(stream, after, upto)])[0]

    def counts(self, asked: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        ends = [(stream, at) for stream, *both in asked for at in both]
        replies = self._connection.pipeline([("PS.NTH", stream, str(at), _ALL) for stream, at in ends])
        checked = zip(ends, replies, strict=True)
        numbers = [int(self._checked(stream, reply, "PS.NTH")[1]) for (stream, _), reply in checked]
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

    def deliver(
        self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str, alone: Collection[str]
    ) -> frozenset[str]:
        del alone
        left = [part for parts, position in batches for part in parts if part.upto > position]
        commands: list[Command] = [
            ("PS.DELIVER", part.stream, group, f"{prefix}-{part.index}", str(part.after), str(part.upto))
            for part in left
        ]
        for part, reply in zip(left, self._connection.pipeline(commands), strict=True):
            self._checked(part.stream, reply, "PS.DELIVER")
        return frozenset()

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        ours: list[str] = []
        shared: dict[str, StreamId] = {}
        for stream, (_, counts, others) in self._pending(list(uptos), group, prefix).items():
            if others:
                # PS.ACKRANGE acknowledges for every consumer, and some entries in the range are not this query's.
                shared[stream] = uptos[stream]
            elif counts:
                ours.append(stream)
        acks: list[Command] = [("PS.ACKRANGE", stream, group, "0-0", str(uptos[stream])) for stream in ours]
        for stream, reply in zip(ours, self._connection.pipeline(acks), strict=True):
            self._checked(stream, reply, "PS.ACKRANGE")
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
