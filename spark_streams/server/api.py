"""Server facts: the one door through which planning learns about streams and groups, and tells the server of progress.

`ServerFacts` is what the readers ask. `RedisFacts` answers it with the commands that every Redis or Valkey has,
`EngineFacts` with the engine's own (PS.NTH, PS.SPLIT, PS.DELIVER, PS.ACKRANGE) where COMMAND INFO knows them all;
`facts_of` chooses, and nobody else notices. Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from spark_streams.client.connection import Connection
from spark_streams.read.offsets import Cut
from spark_streams.read.planning import Range
from spark_streams.stream_id import ZERO, StreamId


@dataclass(frozen=True)
class GroupState:
    """A group: the last ID it was given, the number of entries that follow (None: unknown), and of pending ones.

    `read` is how many of all entries ever added it was given, or had passed when it was made; None where unknown.
    """

    position: StreamId
    lag: int | None
    pending: int
    read: int | None = None


@dataclass(frozen=True)
class StreamState:
    """A stream that exists: the last ID it ever had, its length, its first entry's ID, and the group if it has it.

    `added` is how many entries were ever added, None where the server does not count them (before Redis 7); `deleted`
    the largest ID that XDEL removed.
    """

    last: StreamId
    length: int
    first: StreamId | None
    group: GroupState | None
    added: int | None = None
    deleted: StreamId = ZERO

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

    def following(self, after: StreamId) -> int | None:
        """How many entries there are behind `after`, where that is known without counting."""
        if after >= self.last or not self.length or self.first is None:
            return 0
        return self.length if after < self.first else None


class ServerFacts(Protocol):
    """What planning asks of a server."""

    @property
    def counts(self) -> bool:
        """Whether counting entries costs next to nothing."""
        ...

    def states(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        """Each stream's state; None where there is no such key. NOT_A_STREAM for another type's key."""
        ...

    def discover(self, pattern: str) -> list[str]:
        """The names of the streams that a glob matches, sorted."""
        ...

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        """See `planning.Nth`."""
        ...

    def count(self, stream: str, after: StreamId, upto: StreamId) -> int:
        """How many entries lie in (after, upto]. Where `counts` is false, it is found out by reading them."""
        ...

    def split(self, part: Range, parts: int, most: int | None, *, exact: bool) -> list[Cut]:
        """Cuts that part a range into `parts` of equal size, or more if one would have more than `most` entries.

        With `exact` each number of entries is known. The last cut is the range's end.
        """
        ...

    def entry_bytes(self, stream: str, after: StreamId) -> float:
        """What an entry behind `after` takes on the wire, on average over the next few; 0 where there is none."""
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

    def deliver(self, parts: Sequence[Range], group: str, consumer: str, position: StreamId) -> bool:
        """Put the ranges of one stream, in order, into the group's pending list, as far as they lie behind `position`.

        False where that is better left to the tasks: one range, and a server that delivers by reading only.
        """
        ...

    def acknowledge(self, stream: str, group: str, consumer: str, upto: StreamId) -> None:
        """Acknowledge all entries up to `upto` that are pending for the query's consumers."""
        ...

    def unfinished(self, stream: str) -> StreamId | None:
        """The smallest ID that a group has yet to read or acknowledge; None where the stream has no group."""
        ...

    def trim(self, stream: str, before: StreamId) -> int:
        """Remove the entries before an ID; how many there were."""
        ...


_EXTENSIONS = ("PS.NTH", "PS.SPLIT", "PS.DELIVER", "PS.ACKRANGE")
_extended: WeakKeyDictionary[Connection, bool] = WeakKeyDictionary()


def facts_of(connection: Connection) -> ServerFacts:
    """The facts of the server at the other end; what it can do is asked once for each connection."""
    from spark_streams.server.engine import EngineFacts
    from spark_streams.server.redis import RedisFacts

    if connection not in _extended:
        (reply,) = connection.pipeline([("COMMAND", "INFO", *_EXTENSIONS)])
        # A server that refuses to answer is treated as one that has none of them.
        _extended[connection] = isinstance(reply, list) and len(reply) == len(_EXTENSIONS) and all(reply)
    return EngineFacts(connection) if _extended[connection] else RedisFacts(connection)


def position_of(state: StreamState | None) -> StreamId:
    """The last ID a stream ever had; 0-0 for one that does not exist yet."""
    return ZERO if state is None else state.last
