"""States of streams and of their groups, and the ranges of a batch, with the replies that describe them.

XINFO STREAM replies with a stream's first and last entry, and XRANGE with all entries of a range. If entries are large
and the server allows `EVAL`, read-only scripts reply with only the IDs. Everything works without them.

The data classes need no server, so planning can be tested with plain values.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from streamclient.capabilities import Capabilities
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
    """Return the state in a reply of XINFO STREAM, or of the script that omits the entries' values. `group`: state of
    one of its groups.
    """
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


_STATE = """
local found, largest = {}, 0
for i, value in ipairs(redis.call('XINFO', 'STREAM', KEYS[1])) do
  if type(value) == 'table' then
    local size = 0
    for _, word in ipairs(value[2]) do size = size + #word end
    largest = math.max(largest, size)
    value = value[1]
  end
  found[i] = value
end
found[#found + 1] = 'entry-bytes'
found[#found + 1] = largest
return found
"""

_IDS = """
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
local size = 0
for _, entry in ipairs(entries) do
  for _, word in ipairs(entry[2]) do size = size + #word end
end
local found = {#entries, size, #entries > 0 and entries[#entries][1] or false}
for i = tonumber(ARGV[4]), #entries, tonumber(ARGV[5]) do found[#found + 1] = entries[i][1] end
return found
"""


@dataclass(frozen=True)
class Ids:
    """A range without its values: the number of entries, the size of their fields in bytes, and the ID of the last
    entry.

    `marks` are the requested IDs.
    """

    count: int
    size: int
    last: StreamId | None
    marks: Sequence[StreamId]


def state_of(stream: str | bytes) -> Command:
    """Return the script that replies like XINFO STREAM, with IDs in place of entries, followed by `entry-bytes`.

    `entry-bytes` is the size of the larger of the two entries.
    """
    return ("EVAL", _STATE, 1, stream)


def ids_of(stream: str | bytes, after: StreamId, upto: StreamId, count: int, first: int, step: int) -> Command:
    """Return the script that replies with `Ids` of at most `count` entries in (after, upto].

    Its marks are the IDs of the `first`-th entry and of every `step`-th entry after it.
    """
    return ("EVAL", _IDS, 1, stream, f"({after}", str(upto), count, first, step)


def parsed_ids(reply: Any) -> Ids:
    """Parse the reply to `ids_of`."""
    count, size, last, *marks = reply
    return Ids(int(count), int(size), None if last is None else StreamId.parse(last), [*map(StreamId.parse, marks)])


class States:
    """States of streams, each with the state of one of its groups, with the commands of any Redis."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def _known(self) -> Capabilities:
        return self._connection.capabilities

    def of(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        """Return each stream's state, or None if the key does not exist.

        If a group is given, the state includes the group's state. Raises NOT_A_STREAM for a key of another type.
        """
        # The group is requested after the stream, so entries that arrive in between make its lag too large. In the
        # other order, the lag would be too small.
        known = self._known
        scripted = {stream for stream in streams if known.prefers_script(stream)}
        commands: list[Command] = []
        for stream in streams:
            commands.append(state_of(stream) if stream in scripted else ("XINFO", "STREAM", stream))
            if group is not None:
                commands.append(("XINFO", "GROUPS", stream))
        replies = iter(self._connection.pipeline(commands))
        found: dict[str, StreamState | None] = {}
        refused: list[str] = []
        for stream in streams:
            reply = next(replies)
            groups = checked(self._connection, stream, next(replies), "XINFO GROUPS") if group is not None else None
            if stream in scripted and isinstance(reply, ResponseError) and "no such key" not in str(reply):
                refused.append(stream)
                continue
            state = checked(self._connection, stream, reply, "XINFO STREAM")
            found[stream] = None if state is None else stream_state(state, group_state(groups, group))
            if state is not None and stream not in scripted:
                known.learn_sizes(stream, state)
        if refused:
            known.runs_scripts = False
            found.update(self.of(refused, group))
        return found

    def scripted(self, streams: Iterable[str]) -> frozenset[str]:
        """Return the streams whose entries are so large that a script should read their state."""
        return frozenset(filter(self._known.prefers_script, streams))

    def requests(self, streams: Sequence[str], group: str, scripted: Collection[str] = frozenset()) -> list[Command]:
        """Return commands that read the state of each stream and its group at the same moment.

        The commands may be sent on any link. `scripted`: a result of the method of the same name.
        """
        del group  # XINFO GROUPS reports all groups
        commands: list[Command] = [("MULTI",)]
        for stream in streams:
            by_script = stream in scripted and self._known.runs_scripts
            commands.append(state_of(stream) if by_script else ("XINFO", "STREAM", stream))
            commands.append(("XINFO", "GROUPS", stream))
        return [*commands, ("EXEC",)]

    def parsed(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        """Return the states in the replies to `requests`, as `of` does.

        Raises RefusedForNowError if the commands must be sent again, after a new call of `requests`.
        """
        executed = replies[-1]
        if executed is None:
            raise RefusedForNowError("a key that was watched before was changed")
        if isinstance(executed, ResponseError):
            self._refuse(next(reply for reply in replies if isinstance(reply, ResponseError)))
        found: dict[str, StreamState | None] = {}
        for stream, reply, listed in zip(streams, executed[::2], executed[1::2], strict=True):
            if isinstance(reply, ResponseError) and "script" in str(reply) and "no such key" not in str(reply):
                self._refuse(reply)
            state = checked(self._connection, stream, reply, "XINFO STREAM")
            groups = checked(self._connection, stream, listed, "XINFO GROUPS")
            found[stream] = None if state is None else stream_state(state, group_state(groups, group))
        return found

    def _refuse(self, refusal: ResponseError) -> NoReturn:
        text = str(refusal)
        if is_transient(refusal):
            raise RefusedForNowError(text)
        if self._known.runs_scripts and ("eval" in text or "script" in text):
            self._known.runs_scripts = False
            raise RefusedForNowError(text)
        raise refused(self._connection.address, "XINFO", text)

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
                reads = [self.requests([stream], group, self.scripted([stream])) for stream in ours]
                replies = iter(link.pipeline([*itertools.chain.from_iterable(reads)]))
                for stream, commands in zip(ours, reads, strict=True):
                    try:
                        found.update(self.parsed([stream], group, [*itertools.islice(replies, len(commands))]))
                    except RefusedForNowError as cause:
                        refusal = str(cause)
                        connection.learn_from(refusal, link)
                        return None
            return True

        if connection.retry(attempt, lambda: connection.drop(link)) is None:
            raise refused(connection.address, "XINFO", refusal)
        return {stream: found[stream] for stream in streams}
