"""Reading entries for consumers of groups: new ones within a transaction, or a consumer's history.

Replies are cut into pages of entries without being parsed. This module depends on the codec's pages and a connection,
but not on the purpose of a transaction or on other readers of the group.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
import numpy as np

from streamclient.codec.decode import decode_page
from streamclient.codec.reply import Page, array_header
from streamclient.connection import Command, Connection, Link
from streamclient.errors import fail
from streamclient.refusals import RefusedForNowError, refused
from streamclient.retry import is_transient
from streamclient.streams.pages import PageSize, joined
from streamclient.wire_errors import ResponseError
from streamwire.stream_id import ZERO, StreamId

_ALL = 2**31 - 1  # larger than the number of entries that a consumer has pending
_CLAIM_PAGE = 1000  # IDs in one XCLAIM


@dataclass(frozen=True)
class Consumer:
    """The consumer `name` of a group. Its history is read in pages of at most `page_size` entries."""

    stream: str
    group: str
    name: str
    page_size: int


@dataclass(frozen=True)
class Claim:
    """Pending entries of other consumers to claim, if they are idle for `idle` milliseconds when the claim is
    executed.
    """

    idle: int
    ids: Sequence[bytes]


def read_new(
    connection: Connection,
    link: Link,
    consumer: Consumer,
    first: Command,
    claims: Sequence[Claim],
    count: int,
    also: Command | None = None,
) -> list[Page] | None:
    """Claim entries and read `count` new ones, in one transaction with the command `first`. Return pages of the claimed
    entries and of the new ones.

    `also`: another XREADGROUP, whose entries are not in the result. Returns None, and executes nothing, if a key that
    is watched on the link was changed. Raises `wire_errors.BROKEN` and the errors of `refuse`.
    """
    commands = Read(consumer, count, first, claims).commands
    # Each reply is followed by its own token, so that its end is found without parsing it.
    marked: list[Command] = [("MULTI",), first]
    if also is not None:
        commands.append(also)
    tokens = [secrets.token_hex(16).encode() for _ in commands]
    for command, token in zip(commands, tokens, strict=True):
        marked += [command, ("ECHO", token)]
    buffer, stop = link.receive(link.request([*marked, ("EXEC",)]))
    queued = b"+QUEUED\r\n" * (len(marked) - 1)
    if not buffer.startswith(b"+OK\r\n" + queued):
        refuse(connection, consumer, bytes(buffer[:stop]), in_transaction=True)
    start = 5 + len(queued)
    if buffer.startswith((b"*-1\r\n", b"_\r\n"), start):
        return None
    head = buffer.find(b"\r\n", start) + 2
    at = buffer.find(b"\r\n", head) + 2  # after the first command's reply, which is one line
    found: list[Page] = []
    for token in tokens:
        end = buffer.find(b"$32\r\n" + token, at, stop)
        if buffer.startswith(b"-", at):
            refuse(connection, consumer, bytes(buffer[at:end]), in_transaction=True)
        page = None
        if also is None or token != tokens[-1]:
            page = _page(buffer, at, end, nested=token == tokens[-1] and bool(count))
        if page is not None:
            found.append(page)
        at = end + 5 + 32 + 2
    return found


@dataclass(frozen=True)
class Read:
    """One read for a consumer: `claims`, and `count` new entries. The command `first` is sent before the read."""

    consumer: Consumer
    count: int
    first: Command
    claims: Sequence[Claim] = ()

    @property
    def commands(self) -> list[Command]:
        """The commands that reply with entries: XCLAIMs, and an XREADGROUP if new entries are to be read."""
        consumer = self.consumer
        found: list[Command] = []
        for claim in self.claims:
            pages = (claim.ids[i : i + _CLAIM_PAGE] for i in range(0, len(claim.ids), _CLAIM_PAGE))
            found += [("XCLAIM", consumer.stream, consumer.group, consumer.name, claim.idle, *ids) for ids in pages]
        if self.count:
            found.append(_xreadgroup(consumer, self.count, ">"))
        return found


def read_several(link: Link, reads: Sequence[Read], size: PageSize) -> tuple[Page | None, list[int | None]] | None:
    """Read new entries for consumers of several streams, in one transaction on a link that watches their ledgers.

    Updates `size` with the size of the entries. Returns one page of all entries, in order, and each consumer's number
    of entries (None if its read was refused). Returns None if the transaction was not executed. Does not claim entries.
    """
    found = _executed(link, reads)
    if found is None:
        return None
    buffer, spans = found
    bodies: list[bytes] = []
    counts: list[int | None] = []
    for ((at, end, _),) in spans:
        if buffer[at] == ord("-"):
            counts.append(None)
        else:
            count, begin = _nested(buffer, at)
            counts.append(count)
            bodies.append(bytes(buffer[begin:end]) if count else b"")
    total = sum(count or 0 for count in counts)
    if total:
        size.update(total, sum(map(len, bodies)))
    return (joined(bodies, total) if total else None), counts


def read_each(link: Link, reads: Sequence[Read], size: PageSize) -> list[list[Page] | None] | None:
    """Read like `read_several`, but also claim entries.

    Return only the pages of each consumer, or None for a consumer if one of its commands was refused.
    """
    found = _executed(link, reads)
    if found is None:
        return None
    buffer, spans = found
    pages: list[list[Page] | None] = []
    for of_consumer in spans:
        if any(buffer[at] == ord("-") for at, _, _ in of_consumer):
            pages.append(None)
        else:
            each = (_page(buffer, at, end, nested=is_new) for at, end, is_new in of_consumer)
            pages.append([page for page in each if page is not None])
    entries = sum(page.count for its in pages for page in its or ())
    if entries:
        size.update(entries, sum(end - at for of_consumer in spans for at, end, _ in of_consumer))
    return pages


def _executed(link: Link, reads: Sequence[Read]) -> tuple[bytearray, list[list[tuple[int, int, bool]]]] | None:
    """Execute the reads in one transaction, and return the buffer with the replies, and the spans of each read.

    A span is the start and end of a reply with entries, and whether these are new entries rather than claimed ones.
    Returns None if the transaction was not executed.
    """
    token = secrets.token_hex(16).encode()
    commands: list[Command] = [("MULTI",)]
    for read in reads:
        commands.append(read.first)
        for command in read.commands:
            commands += [command, ("ECHO", token)]
    buffer, stop = link.receive(link.request([*commands, ("EXEC",)]))
    queued = b"+OK\r\n" + b"+QUEUED\r\n" * (len(commands) - 1)
    if not buffer.startswith(queued) or not buffer.startswith(b"*%d\r\n" % (len(commands) - 1), len(queued)):
        return None
    at = buffer.find(b"\r\n", len(queued)) + 2
    found: list[list[tuple[int, int, bool]]] = []
    for read in reads:
        at = buffer.find(b"\r\n", at) + 2  # after the reply to `first`, which is one line
        spans: list[tuple[int, int, bool]] = []
        for command in read.commands:
            end = buffer.find(b"$32\r\n" + token, at, stop)
            spans.append((at, end, command[0] == "XREADGROUP"))
            at = end + 5 + 32 + 2
        found.append(spans)
    return buffer, found


def deliver_again(connection: Connection, link: Link, consumer: Consumer, first: Command) -> bool:
    """Count one more delivery of all entries pending for the consumer, in one transaction with the command `first`.

    Returns False, and executes nothing, if a key that is watched on the link was changed. Raises the errors of
    `read_new`.
    """
    count = _xreadgroup(consumer, _ALL, "0-0")
    return read_new(connection, link, consumer, first, [], 0, count) is not None


def history(connection: Connection, consumer: Consumer) -> Iterator[tuple[Page, Any, Any, list[bytes]]]:
    """Yield the entries pending for the consumer, without counting a delivery.

    Each page comes with three values: an int32 array of each entry's number of deliveries; a boolean array that flags
    entries pending for the consumer, or None if all are; and the IDs of pending entries before the page's end that no
    longer exist. Raises the errors of `refuse`.
    """
    after = ZERO
    while True:
        (rows,) = connection.pipeline([_xpending(consumer, str(after.next()), "+")])
        if isinstance(rows, ResponseError):
            refuse(connection, consumer, b"-%b\r\n" % str(rows).encode())
        if not rows:
            return
        yield from _pending_entries(connection, consumer, {row[0]: int(row[3]) for row in rows})
        after = StreamId.parse(rows[-1][0])


def _pending_entries(
    connection: Connection, consumer: Consumer, counts: dict[bytes, int]
) -> Iterator[tuple[Page, Any, Any, list[bytes]]]:
    """Yield the entries with the IDs in `counts`, as `history` does. Most are adjacent, so ranges are read.

    `counts`: numbers of deliveries by ID, in order of the IDs.
    """
    left = list(counts)
    while left:
        last = left[-1]
        request: Command = ("XRANGE", consumer.stream, left[0], last, "COUNT", len(left))
        buffer, stop = connection.receive(connection.request([request]))
        if buffer.startswith(b"-"):
            refuse(connection, consumer, bytes(buffer[:stop]))
        page = _page(buffer, 0, stop, nested=False)
        if page is None:
            yield decode_page(b"", 0, 0, 0), np.zeros(0, np.int32), None, left
            return
        ids = page.id_texts()
        end = StreamId.parse(ids[-1]) if page.count == len(left) else StreamId.parse(last)
        passed = sum(StreamId.parse(entry_id) <= end for entry_id in left)
        deleted = sorted(set(left[:passed]) - set(ids))
        ours = [entry_id in counts for entry_id in ids]
        found = np.array([counts.get(entry_id, 0) for entry_id in ids], np.int32)
        yield page, found, None if all(ours) else np.array(ours), deleted
        left = left[passed:]


def deliveries_of(connection: Connection, pages: Sequence[tuple[Consumer, Sequence[bytes]]]) -> list[Any]:
    """Return the result of `deliveries` for the entries of several consumers at once."""
    requested = [
        _xpending(consumer, str(StreamId.parse(ids[0])), str(StreamId.parse(ids[-1]))) for consumer, ids in pages
    ]
    found: list[Any] = []
    for (consumer, ids), rows in zip(pages, connection.commands(requested), strict=True):
        if len(rows) < consumer.page_size:
            counts = {row[0]: int(row[3]) for row in rows}
            found.append(np.array([counts.get(entry_id, 1) for entry_id in ids], np.int32))
        else:
            found.append(deliveries(connection, consumer, ids))
    return found


def deliveries(connection: Connection, consumer: Consumer, ids: Sequence[bytes]) -> Any:
    """Return the number of deliveries of each of these entries: an int32 array.

    The IDs are in order, and pending for the consumer.
    """
    found: dict[bytes, int] = {}
    last = str(StreamId.parse(ids[-1]))
    after = StreamId.parse(ids[0])
    while True:
        rows = _pending(connection, consumer, str(after), last)
        found.update((row[0], int(row[3])) for row in rows)
        if len(rows) < consumer.page_size:
            return np.array([found.get(entry_id, 1) for entry_id in ids], np.int32)
        after = StreamId.parse(rows[-1][0]).next()


def _pending(connection: Connection, consumer: Consumer, first: str, last: str) -> Any:
    """Return a page of the consumer's pending entries, each with ID, consumer, idle time and number of deliveries."""
    return connection.command(*_xpending(consumer, first, last))


def _xpending(consumer: Consumer, first: str, last: str) -> Command:
    return ("XPENDING", consumer.stream, consumer.group, first, last, consumer.page_size, consumer.name)


def _xreadgroup(consumer: Consumer, count: int, after: str) -> Command:
    return ("XREADGROUP", "GROUP", consumer.group, consumer.name, "COUNT", count, "STREAMS", consumer.stream, after)


def _page(buffer: bytearray, start: int, stop: int, *, nested: bool) -> Page | None:
    """Return the entries of a reply; None if it has no entries.

    In a reply of XREADGROUP, they are nested after the stream's name.
    """
    count, at = _nested(buffer, start) if nested else array_header(buffer, start)
    page = decode_page(buffer, at, stop, count) if count > 0 else None
    return page if page is not None and page.count else None


def _nested(buffer: bytearray, start: int) -> tuple[int, int]:
    """Return the number of entries in a reply of XREADGROUP (0 for an empty reply), and the first entry's position."""
    count, at = array_header(buffer, start)
    if count <= 0:
        return 0, at
    _, at = array_header(buffer, at)
    length = int(buffer[at + 1 : buffer.find(b"\r\n", at)])
    return array_header(buffer, buffer.find(b"\r\n", at) + 2 + length + 2)


def refuse(connection: Connection, consumer: Consumer, reply: bytes, *, in_transaction: bool = False) -> None:
    """Raise the first error among the server's replies: NOT_A_STREAM, GROUP_LOST, or the error of `refused`.

    In a transaction, a temporary refusal is raised as RefusedForNowError.
    """
    reader = hiredis.Reader(replyError=ResponseError)
    reader.feed(reply)
    refusal: Any = reader.gets()
    while refusal is not False and not isinstance(refusal, ResponseError):
        refusal = reader.gets()
    if in_transaction and is_transient(refusal):
        raise RefusedForNowError(str(refusal))
    if "WRONGTYPE" in str(refusal):
        fail("NOT_A_STREAM", stream=consumer.stream, address=connection.address)
    if "NOGROUP" in str(refusal) or "no such key" in str(refusal):
        fail("GROUP_LOST", stream=consumer.stream, address=connection.address, group=consumer.group)
    raise refused(connection.address, "XREADGROUP", refusal, consumer.stream)
