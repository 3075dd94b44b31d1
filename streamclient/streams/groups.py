"""Consumer groups of streams: positions, consumers, and IDs that are yet to be read or acknowledged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import AnyStr

from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.refusals import Refusal, refusal_of, refused
from streamclient.reply_maps import pairs
from streamclient.streams.states import StreamState, checked
from streamwire.stream_id import ZERO, StreamId

#: A group's largest pending ID, a query's consumers with their pending entries, and the number of pending entries of
#: other consumers.
Pending = tuple[StreamId, dict[bytes, int], int]


class Groups:
    """The consumer groups of streams, with the commands of any Redis.

    `prefix` is the prefix of a query's consumer names; `-<number>` is appended to it once or twice (see `pending_of`).
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, wanted: Mapping[str, tuple[StreamId, int | None]], group: str) -> set[str]:
        """Create the group, and missing streams. Return the streams that did not have the group.

        `wanted`: last-delivered ID in each stream, and the number of entries ever added up to this ID. Without the
        number (None), a server may not report the group's lag.
        """
        replies = self._connection.pipeline(
            [
                ("XGROUP", "CREATE", stream, group, str(position), "MKSTREAM", *_entries_read(read))
                for stream, (position, read) in wanted.items()
            ]
        )
        created: set[str] = set()
        for stream, reply in zip(wanted, replies, strict=True):
            if isinstance(reply, ResponseError) and ("BUSYGROUP" in str(reply) or "already exists" in str(reply)):
                continue
            checked(self._connection, stream, reply, "XGROUP CREATE")
            created.add(stream)
        return created

    def set_positions(self, wanted: Mapping[str, tuple[StreamId, int | None]], group: str) -> None:
        """Set the group's last-delivered ID in these streams, if the group exists. `wanted` is as in `create`."""
        replies = self._connection.pipeline(
            [
                ("XGROUP", "SETID", stream, group, str(position), *_entries_read(read))
                for stream, (position, read) in wanted.items()
            ]
        )
        for stream, reply in zip(wanted, replies, strict=True):
            checked(self._connection, stream, reply, "XGROUP SETID")

    def create_consumers(self, consumers: Sequence[tuple[str, bytes]], group: str) -> set[str]:
        """Create these consumers of streams, without entries. Return the streams that have their consumer now; the
        user may lack the right.
        """
        replies = self._connection.pipeline(
            [("XGROUP", "CREATECONSUMER", stream, group, name) for stream, name in consumers]
        )
        answered = zip(consumers, replies, strict=True)
        return {stream for (stream, _), reply in answered if not isinstance(reply, ResponseError)}

    def consumers(self, streams: Sequence[str], group: str) -> dict[str, list[tuple[bytes, int]]]:
        """Return the name and number of pending entries of each consumer in each stream; empty if the group does not
        exist.
        """
        replies = self._connection.pipeline([("XINFO", "CONSUMERS", stream, group) for stream in streams])
        for stream, reply in zip(streams, replies, strict=True):
            if isinstance(reply, ResponseError) and refusal_of(reply) is not Refusal.ROW:
                raise refused(self._connection.address, "XINFO CONSUMERS", reply, stream)
        return {
            stream: []
            if isinstance(reply, ResponseError)
            else [(info[b"name"], int(info[b"pending"])) for info in map(pairs, reply)]
            for stream, reply in zip(streams, replies, strict=True)
        }

    def delete_consumers(self, consumers: Sequence[tuple[str, bytes]], group: str) -> None:
        """Delete these consumers of streams, with their pending entries. Groups that do not exist are ignored."""
        replies = self._connection.pipeline(
            [("XGROUP", "DELCONSUMER", stream, group, name) for stream, name in consumers]
        )
        for (stream, _), reply in zip(consumers, replies, strict=True):
            checked(self._connection, stream, reply, "XGROUP DELCONSUMER")

    def first_pending_ids(self, streams: Sequence[str], group: str, prefix: str) -> dict[str, StreamId]:
        """Return the smallest ID pending for the query's consumers, for each stream that has one."""
        pending = pending_of(self._connection, streams, group, prefix)
        requested = [(stream, name) for stream, (_, counts, _) in pending.items() for name in counts]
        replies = self._connection.pipeline(
            [("XPENDING", stream, group, "-", "+", 1, name) for stream, name in requested]
        )
        found: dict[str, StreamId] = {}
        for (stream, _), reply in zip(requested, replies, strict=True):
            if rows := checked(self._connection, stream, reply, "XPENDING"):
                first = StreamId.parse(rows[0][0])
                found[stream] = min(first, found.get(stream, first))
        return found

    def first_unfinished_ids(self, streams: Sequence[AnyStr]) -> dict[AnyStr, StreamId | None]:
        """Return each stream's smallest ID that any group has yet to read or acknowledge.

        It is None for a stream without groups.
        """
        smallest: dict[AnyStr, StreamId | None] = dict.fromkeys(streams)
        requested: list[tuple[AnyStr, bytes]] = []
        listed = self._connection.pipeline([("XINFO", "GROUPS", stream) for stream in streams])
        for stream, reply in zip(streams, listed, strict=True):
            for group in map(pairs, checked(self._connection, stream, reply, "XINFO GROUPS") or ()):
                position = StreamId.parse(group[b"last-delivered-id"]).next()
                smallest[stream] = min(position, smallest[stream] or position)
                requested.append((stream, group[b"name"]))
        replies = self._connection.pipeline([("XPENDING", stream, group) for stream, group in requested])
        for (stream, _), reply in zip(requested, replies, strict=True):
            summary = checked(
                self._connection, stream, reply, "XPENDING"
            )  # None: the group was destroyed after it was listed
            if summary is not None and summary[0]:
                found = StreamId.parse(summary[1])
                smallest[stream] = min(found, smallest[stream] or found)
        return smallest


def pending_of(
    connection: Connection, streams: Sequence[str], group: str, prefix: str
) -> dict[str, tuple[StreamId, dict[bytes, int], int]]:
    """Return for each stream the group's largest pending ID, the query's consumers with their numbers of pending
    entries, and the number of pending entries of other consumers. Streams without the group are absent.
    """
    ours = re.compile(
        re.escape(prefix.encode()) + rb"(?:-[0-9]+){1,2}"
    )  # the consumer of a partition, or of a batch and a partition
    found: dict[str, tuple[StreamId, dict[bytes, int], int]] = {}
    replies = connection.pipeline([("XPENDING", stream, group) for stream in streams])
    for stream, summary in zip(streams, replies, strict=True):
        if checked(connection, stream, summary, "XPENDING") is None:
            continue  # no such stream or group: no pending entries
        counts = {name: int(count) for name, count in summary[3] or () if ours.fullmatch(name)}
        others = int(summary[0]) - sum(counts.values())
        found[stream] = StreamId.parse(summary[2]) if summary[0] else ZERO, counts, others
    return found


def _entries_read(read: int | None) -> Command:
    """Return the arguments of XGROUP for the number of entries that a group has read; empty if it is unknown."""
    return () if read is None else ("ENTRIESREAD", read)


def removed(
    connection: Connection, wanted: Sequence[tuple[AnyStr, AnyStr, Sequence[bytes], StreamState | None]]
) -> list[list[bytes]]:
    """Return the IDs of pending entries that no longer exist, for each (stream, group, IDs, state).

    The state is that of the stream, from before the IDs were listed as pending; None if it is unknown. An entry that
    was acknowledged and removed in the meantime is not among the results.
    """
    asked = [
        (stream, each)
        for stream, _, ids, state in wanted
        for each in ids
        if state is None or may_be_removed(state, each)
    ]
    replies = connection.pipeline([("XRANGE", stream, each, each) for stream, each in asked])
    missing = {
        one for one, reply in zip(asked, replies, strict=True) if not checked(connection, one[0], reply, "XRANGE")
    }
    again = [(stream, group, each) for stream, group, ids, _ in wanted for each in ids if (stream, each) in missing]
    rows = connection.pipeline([("XPENDING", stream, group, each, each, 1) for stream, group, each in again])
    lost = {one for one, reply in zip(again, rows, strict=True) if checked(connection, one[0], reply, "XPENDING")}
    return [[each for each in ids if (stream, group, each) in lost] for stream, group, ids, _ in wanted]


def may_be_removed(state: StreamState, entry_id: bytes) -> bool:
    """Return whether the state allows that an entry which was once in the stream no longer exists."""
    if state.first_id is None or state.entries_added is None:
        return True
    parsed = StreamId.parse(entry_id)
    return parsed < state.first_id or parsed <= state.max_deleted_id
