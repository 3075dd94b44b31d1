"""Server facts by the engine's own commands, which count, split, deliver and acknowledge without touching entries.

Whatever has no command of its own is as on any server.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_streams.client.connection import Command
from spark_streams.read.offsets import Cut
from spark_streams.read.planning import Range
from spark_streams.server.redis import RedisFacts
from spark_streams.stream_id import StreamId

_ALL = 2**62


class EngineFacts(RedisFacts):
    """Facts by PS.NTH, PS.SPLIT, PS.DELIVER and PS.ACKRANGE."""

    counts = True

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        found, number = self._connection.command("PS.NTH", stream, str(after), count)
        if found is not None:
            at = StreamId.parse(found)
            if at <= upto and int(number) == count:
                return at, count
            if at <= upto:
                return upto, int(number)
        return upto, self.count(stream, after, upto) if found is not None else 0

    def count(self, stream: str, after: StreamId, upto: StreamId) -> int:
        replies = self._connection.pipeline([("PS.NTH", stream, str(at), _ALL) for at in (after, upto)])
        behind, beyond = (int(self._checked(stream, reply, "PS.NTH")[1]) for reply in replies)
        return behind - beyond

    def split(self, part: Range, parts: int, most: int | None, *, exact: bool) -> list[Cut]:
        del exact  # it always is
        if most is not None:
            parts = max(parts, -(-self.count(part.stream, part.after, part.upto) // most))
        reply = self._connection.command("PS.SPLIT", part.stream, str(part.after), str(part.upto), parts)
        return [(StreamId.parse(upto), int(count)) for upto, count in reply] or [(part.upto, 0)]

    def deliver(self, parts: Sequence[Range], group: str, consumer: str, position: StreamId) -> bool:
        commands: list[Command] = [
            ("PS.DELIVER", part.stream, group, f"{consumer}-{part.index}", str(part.after), str(part.upto))
            for part in parts
            if part.upto > position
        ]
        for part, reply in zip(parts, self._connection.pipeline(commands), strict=False):
            self._checked(part.stream, reply, "PS.DELIVER")
        return True

    def acknowledge(self, stream: str, group: str, consumer: str, upto: StreamId) -> None:
        _, counts, others = self._pending(stream, group, consumer)
        if others:
            # The range holds what is not this query's to acknowledge.
            super().acknowledge(stream, group, consumer, upto)
        elif counts:
            self._connection.command("PS.ACKRANGE", stream, group, "0-0", str(upto))
