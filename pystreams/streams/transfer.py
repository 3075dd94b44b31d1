"""Adding and copying entries. Entries that keep their IDs are added once, even if a copy is interrupted and resumed.

A stream accepts only rising IDs, so its last ID shows where to continue. `Producer` adds entries with new IDs.

A query that writes exactly once leaves records next to each of its streams, and one record for all streams
(`streamclient.record_keys`). The query needs them to finish an interrupted batch. Without the records on the new
server, the query would write existing rows again. All records are hashes. This module depends on their names, not on
their contents.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from pystreams.errors import fail
from pystreams.streams.group_states import Group
from pystreams.streams.inventory import Stream, scan_pages
from pystreams.streams.paged_calls import ask, ask_all, failure, pages
from pystreams.streams.pending import LONG_AGO_MS, Pending, is_unknown
from pystreams.values.names import shown
from streamclient import record_keys
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.refusals import Refusal, refusal_of

#: Consumer of entries that were given back, on servers that require a consumer for every pending entry.
_NOBODY = b"pystreams-returned"


def add(connection: Connection, stream: bytes, rows: Sequence[tuple[bytes, Sequence[bytes]]]) -> None:
    """Add entries with their IDs, in rising order."""
    commands: list[Command] = [("XADD", stream, entry_id, *words) for entry_id, words in rows]
    for (entry_id, _), reply in zip(rows, connection.pipeline(commands), strict=True):
        if isinstance(reply, ResponseError):
            if "equal or smaller" in str(reply):
                fail("ID_NOT_RISING", stream=shown(stream), id=shown(entry_id))
            raise failure(connection, ("XADD", stream), reply)


def set_end(connection: Connection, source: Stream, target: bytes) -> None:
    """Set the copy's last ID and (from Redis 7 on) its counters to those of the source, so that lags are the same."""
    if source.entries_added is None:
        ask(connection, "XSETID", target, str(source.last_id))
        return
    counts: Command = ("ENTRIESADDED", source.entries_added, "MAXDELETEDID", str(source.max_deleted_id))
    ask(connection, "XSETID", target, str(source.last_id), *counts)


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


_BATCH_ENTRIES = 500
_BATCH_BYTES = 1 << 20


class Producer:
    """Adds entries in batches. Call `flush` at the end, and before a pause.

    `added`: number of entries that the server confirmed. `answered`: those of them before the first refused entry.
    `later`: those of them after it. `unconfirmed`: number of entries sent without a reply so far.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._commands: list[Command] = []
        self._bytes = 0
        self.added = self.answered = self.later = 0
        self.unconfirmed = 0

    def add(self, command: Command) -> None:
        """Buffer an entry, and add the buffered entries if they are a full batch."""
        self._commands.append(command)
        self._bytes += sum(len(word) for word in command if isinstance(word, bytes))
        if len(self._commands) >= _BATCH_ENTRIES or self._bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Add the buffered entries. Raises ROW_REFUSED for the first refused entry, or the error of `failure`.

        The server also processes the entries after the refused one.
        """
        commands, self._commands, self._bytes = self._commands, [], 0
        refused: tuple[Command, ResponseError] | None = None
        self.unconfirmed = len(commands)
        for command, reply in zip(commands, self._connection.pipeline(commands), strict=True):
            if not isinstance(reply, ResponseError):
                self.added += 1
                self.later += refused is not None
            elif refused is None:
                refused = command, reply
            self.unconfirmed -= 1
            self.answered += refused is None
        if refused is not None:
            if str(refused[1]).startswith("WRONGTYPE") or refusal_of(refused[1]) is not Refusal.ROW:
                raise failure(self._connection, *refused)
            stream = refused[0][1]
            assert isinstance(stream, bytes)
            fail(
                "ROW_REFUSED",
                address=self._connection.address,
                stream=shown(stream),
                reason=str(refused[1]).rstrip("."),
                added=self.added,
                later=self.later,
            )


def paced(count: int | None, rate: float | None) -> Iterator[int]:
    """Yield the number of entries that are due, until the sum is `count`. Without a `rate`, yield full batches."""
    begin = time.monotonic()
    sent = 0
    while count is None or sent < count:
        due = _BATCH_ENTRIES if rate is None else int((time.monotonic() - begin) * rate) + 1 - sent
        if due <= 0:
            time.sleep(min(0.05, 1 / rate if rate else 0.05))
            continue
        due = min(due, _BATCH_ENTRIES, due if count is None else count - sent)
        sent += due
        yield due


_SPECIAL = b"\\*?[]"  # characters with a meaning in globs


def find_records(connection: Connection, stream: bytes) -> list[bytes]:
    """Return the keys of the records about exactly-once writes to the stream."""
    found: dict[bytes, bytes] = {}  # names of the writing queries, by key
    for page in scan_pages(connection, _literally(record_keys.beside(stream)) + b"*", "hash"):
        found |= {key: name for key in page if (name := record_keys.writer_of(stream, key))}
    ledgers = (record_keys.of_query(name, b"ledger") for name in sorted(set(found.values())))
    return [*sorted(found), *(key for key in ledgers if ask(connection, "EXISTS", key))]


def copy_records(source: Connection, target: Connection, keys: list[bytes]) -> None:
    """Copy records with their remaining time to live, replacing existing records of the target.

    Records that have expired are not copied.
    """
    for page in pages(keys):
        requested: list[Command] = [("HGETALL", key) for key in page]
        left: list[Command] = [("PTTL", key) for key in page]
        replies = ask_all(source, [*requested, *left])
        for key, words, milliseconds in zip(page, replies, replies[len(page) :], strict=False):
            if not words:
                continue  # the record has expired
            keep: list[Command] = [("PEXPIRE", key, milliseconds)] if milliseconds > 0 else []
            ask_all(target, [("MULTI",), ("DEL", key), ("HSET", key, *words), *keep, ("EXEC",)])


def _literally(text: bytes) -> bytes:
    """Return a glob that matches only this text."""
    return b"".join(b"\\" + bytes([byte]) if byte in _SPECIAL else bytes([byte]) for byte in text)
