"""States of streams and of their groups, and the ranges of a batch, with the replies that describe them.

The data classes need no server, so planning can be tested with plain values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamclient.connection import Command, Connection, Link
from streamclient.errors import ResponseError, fail
from streamclient.refusals import RefusedForNowError, is_transient, refused
from streamclient.reply_maps import pairs
from streamwire.stream_id import ZERO, StreamId

#: The end of a part of a range: its last ID (inclusive), and the part's number of entries (None: unknown).
Cut = tuple[StreamId, int | None]


@dataclass(frozen=True)
class Range:
    """Entries of one stream in (after, upto]: exclusive at the start, inclusive at the end.

    `index` numbers the ranges of that stream within a batch, from 0. `count` is the number of entries at planning time;
    None if they were not counted. `about` is an estimate of `count`. `head` is the ID of the first entry at planning
    time; None if it is unknown.
    """

    stream: str
    after: StreamId
    upto: StreamId
    index: int
    count: int | None = None
    about: int | None = None
    head: StreamId | None = None

    @property
    def size(self) -> int | None:
        """The number of entries, or else an estimate; None if both are unknown."""
        return self.about if self.count is None else self.count


@dataclass(frozen=True)
class GroupState:
    """A consumer group, in the terms of XINFO GROUPS.

    `lag`: entries not yet delivered to the group; None if the server does not know the number. `pending`: entries
    delivered and not acknowledged. `entries_read`: number of entries ever added up to the group's position; None if the
    server does not know the number.
    """

    last_delivered_id: StreamId
    lag: int | None
    pending: int
    entries_read: int | None = None


@dataclass(frozen=True)
class StreamState:
    """A stream that exists, in the terms of XINFO STREAM.

    `last_id` is the last ID ever generated. `first_id` is the ID of the first existing entry; None if the stream is
    empty. `entries_added` is None if the server does not report it (before Redis 7). `max_deleted_id` is the largest ID
    removed by XDEL. `group` is the requested group; None if the stream does not have it.
    """

    last_id: StreamId
    length: int
    first_id: StreamId | None
    group: GroupState | None
    entries_added: int | None = None
    max_deleted_id: StreamId = ZERO

    def backlog(self, after: StreamId) -> tuple[int, bool]:
        """Return the number of entries after `after`, and whether it is exact. If not, it is an estimate.

        Even an exact number, if it comes from a group's lag, may include entries added after the stream's state was
        read.
        """
        at_group = self.group is not None and self.group.last_delivered_id == after
        known = self.exact_backlog(after, self.group.lag if self.group is not None and at_group else None)
        if known is not None or self.first_id is None:
            return known or 0, True
        span = self.last_id.ms - self.first_id.ms
        part = (self.last_id.ms - after.ms) / span if span else 1.0
        return max(1, round(self.length * part)), False

    def exact_backlog(self, after: StreamId, lag: int | None = None) -> int | None:
        """Return the number of entries after `after`; None if they would have to be counted.

        `lag`: the lag that the server reports for a group at this position. It may include entries after the position
        that were trimmed. So it is limited to the stream's length, and not used if the position is before the first
        entry.
        """
        if after >= self.last_id or not self.length or self.first_id is None:
            return 0
        if after < self.first_id:
            return self.length
        return None if lag is None else min(lag, self.length)


def last_id_of(state: StreamState | None) -> StreamId:
    """Return the last ID ever generated in the stream; 0-0 for a stream that does not exist (None)."""
    return ZERO if state is None else state.last_id


def checked(connection: Connection, stream: str | bytes, reply: Any, command: str) -> Any:
    """Return the reply; None if it says that the key or the group does not exist. Other refusals are raised."""
    if isinstance(reply, ResponseError):
        text = str(reply)
        if "no such key" in text or "requires the key to exist" in text or text.startswith("NOGROUP"):
            return None
        if "WRONGTYPE" in text or "wrong kind of value" in text:
            fail("NOT_A_STREAM", stream=_text(stream), address=connection.address)
        raise refused(connection.address, command, text, _text(stream))
    return reply


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "replace")


def stream_state(reply: Any, group: GroupState | None) -> StreamState:
    """Return the state in a reply of XINFO STREAM. `group`: state of one of its groups."""
    info = pairs(reply)
    first = info.get(b"first-entry")
    return StreamState(
        last_id=StreamId.parse(info[b"last-generated-id"]),
        length=int(info[b"length"]),
        first_id=StreamId.parse(first[0] if isinstance(first, list) else first) if first else None,
        group=group,
        entries_added=_number(info.get(b"entries-added")),
        max_deleted_id=StreamId.parse(info.get(b"max-deleted-entry-id", b"0-0")),
    )


def group_state(replies: Any, group: str | None) -> GroupState | None:
    """Return the state of that group in a reply of XINFO GROUPS; None if it is missing."""
    for info in map(pairs, replies or ()):
        if group is not None and info[b"name"] == group.encode():
            return GroupState(
                last_delivered_id=StreamId.parse(info[b"last-delivered-id"]),
                lag=_number(info.get(b"lag")),
                pending=int(info[b"pending"]),
                entries_read=_number(info.get(b"entries-read")),
            )
    return None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


_REPLY_BYTES = 16 << 20  # approximate maximum size of the entries in the replies to one request


class States:
    """States of streams, each with the state of one of its groups, with the commands of any Redis."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        """Return each stream's state, or None if the key does not exist.

        If a group is given, the state includes the group's state. Raises NOT_A_STREAM for a key of another type.
        """
        # The group is requested after the stream, so entries that arrive in between make its lag too large. In the
        # other order, the lag would be too small.
        words = ("STREAM",) if group is None else ("STREAM", "GROUPS")
        found: dict[str, StreamState | None] = {}
        left = [*dict.fromkeys(streams)]
        while left:
            # XINFO STREAM sends two entries, so a request about large ones has few streams.
            known = self._connection.capabilities.sizes
            sizes = itertools.accumulate(2 * known.get(each, 1) for each in left)
            count = 1 + sum(size < _REPLY_BYTES for size in sizes)
            some, left = left[:count], left[count:]
            replies = self._connection.pipeline([("XINFO", word, stream) for stream in some for word in words])
            listed = [None] * len(some) if group is None else replies[1::2]
            found.update(self._found(some, group, replies[:: len(words)], listed))
        return found

    def _found(
        self, streams: Sequence[str], group: str | None, replies: Sequence[Any], listed: Sequence[Any]
    ) -> dict[str, StreamState | None]:
        """Return the states in the replies of XINFO STREAM and XINFO GROUPS."""
        found: dict[str, StreamState | None] = {}
        for stream, reply, groups in zip(streams, replies, listed, strict=True):
            state = checked(self._connection, stream, reply, "XINFO STREAM")
            position = group_state(checked(self._connection, stream, groups, "XINFO GROUPS"), group)
            found[stream] = None if state is None else stream_state(state, position)
            if state is not None:
                self._connection.capabilities.learn_sizes(stream, state)
        return found

    def requests(self, streams: Sequence[str], group: str) -> list[Command]:
        """Return commands that read the state of each stream and its group at the same moment.

        The commands may be sent on any link.
        """
        del group  # XINFO GROUPS reports all groups
        reads = [("XINFO", word, stream) for stream in streams for word in ("STREAM", "GROUPS")]
        return [("MULTI",), *reads, ("EXEC",)]

    def parsed(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        """Return the states in the replies to `requests`, as `of` does.

        Raises RefusedForNowError if the commands must be sent again.
        """
        executed = replies[-1]
        if executed is None:
            raise RefusedForNowError("a key that was watched before was changed")
        if isinstance(executed, ResponseError):
            refusal = next(reply for reply in replies if isinstance(reply, ResponseError))
            if is_transient(refusal):
                raise RefusedForNowError(str(refusal))
            raise refused(self._connection.address, "XINFO", refusal)
        return self._found(streams, group, executed[::2], executed[1::2])

    def consistent(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        """Return the same as `of`, but read each stream and its group at the same moment."""
        connection = self._connection
        link: Link | None = None
        refusal = ""
        found: dict[str, StreamState | None] = {}

        def attempt() -> bool | None:
            nonlocal link, refusal
            link = None
            on_links: dict[Link, list[str]] = {}
            for stream in streams:
                if stream not in found:
                    on_links.setdefault(connection.link(stream.encode()), []).append(stream)
            for link, ours in on_links.items():
                reads = [self.requests([stream], group) for stream in ours]
                replies = iter(link.pipeline([*itertools.chain.from_iterable(reads)]))
                for stream, commands in zip(ours, reads, strict=True):
                    try:
                        found.update(self.parsed([stream], group, [*itertools.islice(replies, len(commands))]))
                    except RefusedForNowError as cause:
                        refusal = str(cause)
                        connection.learn_from(refusal, link)
                        return None
            return True

        if connection.retry(attempt, lambda _: connection.drop(link)) is None:
            raise refused(connection.address, "XINFO", refusal)
        return {stream: found[stream] for stream in streams}
