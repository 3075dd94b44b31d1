"""Copying streams: each entry is added once, even if the work is interrupted and started again.

Entries that keep their IDs can be added only once: a stream accepts only rising IDs, so its last ID shows where to
continue. For entries with new IDs, a key next to the stream counts the added rows. Each transaction that adds rows
also updates this count.
"""

from __future__ import annotations

from collections.abc import Sequence

from pystreams.errors import fail
from pystreams.streams.groups.group_states import Group
from pystreams.streams.groups.pending import LONG_AGO_MS, Pending, is_unknown
from pystreams.streams.inventory import Stream, parsed
from pystreams.streams.paged_calls import ask, ask_all, failure
from pystreams.values.names import shown
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamwire.slots import same_slot_tag

#: Consumer of entries that were given back, on servers that require a consumer for every pending entry.
_NOBODY = b"pystreams-returned"
#: Time to live of the row count of an interrupted import.
_EXPIRY_SECONDS = 7 * 86_400


def find(connection: Connection, stream: bytes) -> Stream | None:
    """Return a stream; None if it does not exist. Raises NOT_A_STREAM."""
    command: Command = ("XINFO", "STREAM", stream)
    (reply,) = connection.pipeline([command])
    if isinstance(reply, ResponseError):
        problem = failure(connection, command, reply)
        if problem.condition == "NO_SUCH_STREAM":
            return None
        raise problem
    return parsed(stream, reply)


def add(connection: Connection, stream: bytes, rows: Sequence[tuple[bytes, Sequence[bytes]]]) -> None:
    """Add entries with their IDs, in rising order."""
    commands: list[Command] = [("XADD", stream, entry_id, *words) for entry_id, words in rows]
    for (entry_id, _), reply in zip(rows, connection.pipeline(commands), strict=True):
        if isinstance(reply, ResponseError):
            if "equal or smaller" in str(reply):
                fail("ID_NOT_RISING", stream=shown(stream), id=shown(entry_id))
            raise failure(connection, ("XADD", stream), reply)


class Counted:
    """An import with new IDs. `done`: number of rows already in the stream. `name` identifies the import."""

    def __init__(self, connection: Connection, stream: bytes, name: bytes) -> None:
        self._connection = connection
        self._stream = stream
        self._key = b"pystreams:{" + same_slot_tag(stream) + b"}:import:" + name
        self.done = int(ask(connection, "GET", self._key) or 0)

    def add(self, rows: Sequence[Sequence[bytes]]) -> None:
        """Add rows and count them, in one transaction.

        Raises the error of a refused row. If the row was refused before EXEC, no row is added; otherwise the added rows
        are counted.
        """
        total = self.done + len(rows)
        adds: list[Command] = [("XADD", self._stream, "*", *words) for words in rows]
        count: Command = ("SET", self._key, total, "EX", _EXPIRY_SECONDS)
        results = ask_all(self._connection, [("MULTI",), *adds, count, ("EXEC",)])[-1]
        refused = [pair for pair in zip([*adds, count], results, strict=True) if isinstance(pair[1], ResponseError)]
        if refused:
            self.done = total - sum(command is not count for command, _ in refused)
            ask(self._connection, "SET", self._key, self.done, "EX", _EXPIRY_SECONDS)
            raise failure(self._connection, *refused[0])
        self.done = total

    def finish(self) -> None:
        """Delete the row count after all rows were added."""
        ask(self._connection, "DEL", self._key)


def set_end(connection: Connection, source: Stream, target: bytes) -> None:
    """Set the copy's last ID and (from Redis 7 on) its counters to those of the source, so that lags are the same."""
    if source.added is None:
        ask(connection, "XSETID", target, str(source.generated))
        return
    counts: Command = ("ENTRIESADDED", source.added, "MAXDELETEDID", str(source.deleted))
    ask(connection, "XSETID", target, str(source.generated), *counts)


def copy_group(connection: Connection, group: Group, target: bytes) -> None:
    """Create the group in the target at its position in the source, or move an existing group to this position."""
    read: Command = () if group.read is None else ("ENTRIESREAD", group.read)
    command: Command = ("XGROUP", "CREATE", target, group.name, str(group.position), "MKSTREAM", *read)
    (reply,) = connection.pipeline([command])
    if isinstance(reply, ResponseError):
        if "BUSYGROUP" not in str(reply):
            raise failure(connection, command, reply)
        ask(connection, "XGROUP", "SETID", target, group.name, str(group.position), *read)


def copy_pending(connection: Connection, target: bytes, group: bytes, page: Sequence[Pending]) -> int:
    """Make entries pending with the same consumers, idle times and delivery counts as at the source.

    Returns their number, not counting entries that the target does not have. Entries that were given back (XNACK) are
    given back again. If the server does not support that, they are assigned to a special consumer, with an idle time of
    a day.
    """
    free = [entry for entry in page if entry.is_free]
    held = [_claimed(target, group, entry, entry.consumer, entry.idle_ms or 0) for entry in page if not entry.is_free]
    count = sum(map(len, ask_all(connection, held)))
    commands: list[Command] = [
        ("XNACK", target, group, "FAIL", "IDS", 1, entry.id, "RETRYCOUNT", entry.deliveries, "FORCE") for entry in free
    ]
    unknown: list[Pending] = []
    for entry, command, reply in zip(free, commands, connection.pipeline(commands), strict=True):
        if isinstance(reply, ResponseError):
            if not is_unknown(reply):
                raise failure(connection, command, reply)
            unknown.append(entry)
        else:
            count += int(reply)
    again = [_claimed(target, group, entry, _NOBODY, LONG_AGO_MS) for entry in unknown]
    return count + sum(map(len, ask_all(connection, again)))


def _claimed(target: bytes, group: bytes, entry: Pending, consumer: bytes, idle_ms: int) -> Command:
    return (
        *("XCLAIM", target, group, consumer, 0, entry.id, "IDLE", idle_ms),
        *("RETRYCOUNT", entry.deliveries, "FORCE", "JUSTID"),
    )
