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
from streamclient.errors import ResponseError, error
from streamclient.refusals import RefusedForNowError, is_transient, refused
from streamclient.streams.pages import Body
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


@dataclass(frozen=True)
class Read:
    """One read for a consumer: claims, and `count` new entries. The command `first` is sent before the read.

    With `again`, one more delivery of all entries pending for the consumer is counted instead.
    """

    consumer: Consumer
    first: Command
    count: int = 0
    claims: Sequence[Claim] = ()
    again: bool = False

    @property
    def commands(self) -> list[Command]:
        """The commands that reply with entries."""
        consumer = self.consumer
        if self.again:
            return [_xreadgroup(consumer, _ALL, "0-0")]
        found: list[Command] = []
        for claim in self.claims:
            pages = (claim.ids[i : i + _CLAIM_PAGE] for i in range(0, len(claim.ids), _CLAIM_PAGE))
            found += [("XCLAIM", consumer.stream, consumer.group, consumer.name, claim.idle, *ids) for ids in pages]
        if self.count:
            found.append(_xreadgroup(consumer, self.count, ">"))
        return found


def execute(connection: Connection, link: Link, reads: Sequence[Read]) -> list[list[Body] | Exception] | None:
    """Execute the reads in one transaction, and return the entries of each read, or its error (see `refusal`).

    Returns None, and executes nothing, if a key that is watched on the link was changed. Raises `errors.BROKEN`,
    RefusedForNowError for a temporary refusal, and the error of the transaction.
    """
    # Each reply with entries is followed by a token, so that its end is found without parsing it.
    token = secrets.token_hex(16).encode()
    commands: list[Command] = [("MULTI",)]
    owners = [reads[0].consumer]
    for read in reads:
        words = [word for command in read.commands for word in (command, ("ECHO", token))]
        commands += [read.first, *words]
        owners += [read.consumer] * (1 + len(words))
    buffer, stop = link.receive(link.request([*commands, ("EXEC",)]))
    queued = b"+OK\r\n" + b"+QUEUED\r\n" * (len(commands) - 1)
    if not buffer.startswith(queued):
        raise _first_refusal(connection, owners, bytes(buffer[:stop]))
    if buffer.startswith((b"*-1\r\n", b"_\r\n"), len(queued)):
        return None
    if not buffer.startswith(b"*", len(queued)):
        raise _first_refusal(connection, owners, bytes(buffer[len(queued) : stop]))
    at = buffer.find(b"\r\n", len(queued)) + 2
    found: list[list[Body] | Exception] = []
    for read in reads:
        at = buffer.find(b"\r\n", at) + 2  # after the reply to `first`, which is one line
        bodies: list[Body] = []
        problem: Exception | None = None
        for command in read.commands:
            end = buffer.find(b"$32\r\n" + token, at, stop)
            if buffer.startswith(b"-", at):
                problem = problem or _first_refusal(connection, [read.consumer], bytes(buffer[at:end]))
            elif not read.again:
                bodies += _bodies(buffer, at, end, nested=command[0] == "XREADGROUP")
            at = end + 5 + 32 + 2
        if isinstance(problem, RefusedForNowError):
            raise problem
        found.append(problem or bodies)
    return found


def _first_refusal(connection: Connection, owners: Sequence[Consumer], replies: bytes) -> Exception:
    """Return the first error among replies to commands for these consumers."""
    reader = hiredis.Reader(replyError=ResponseError)
    reader.feed(replies)
    for owner in owners:
        reply = reader.gets()
        if isinstance(reply, ResponseError):
            return RefusedForNowError(str(reply)) if is_transient(reply) else refusal(connection, owner, reply)
    return refused(connection.address, "EXEC", str(replies[:40]))


def history(connection: Connection, consumer: Consumer) -> Iterator[tuple[Page, Any, Any, list[bytes]]]:
    """Yield the entries pending for the consumer, without counting a delivery.

    Each page comes with three values: an int32 array of each entry's number of deliveries; a boolean array that flags
    entries pending for the consumer, or None if all are; and the IDs of pending entries before the page's end that no
    longer exist. Raises the errors of `refusal`.
    """
    after = ZERO
    while True:
        (rows,) = connection.pipeline([_xpending(consumer, str(after.next()), "+")])
        if isinstance(rows, ResponseError):
            raise refusal(connection, consumer, rows)
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
            raise refusal(connection, consumer, ResponseError(buffer[1:stop].decode("utf-8", "replace").rstrip()))
        page = next((body.page() for body in _bodies(buffer, 0, stop, nested=False)), None)
        if page is None or not page.count:
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


def deliveries(connection: Connection, pages: Sequence[tuple[Consumer, Sequence[bytes]]]) -> list[Any]:
    """Return an int32 array for each page: the number of deliveries of each entry.

    The IDs are in order, and pending for the consumer.
    """
    found: list[dict[bytes, int]] = [{} for _ in pages]
    left = {at: (consumer, StreamId.parse(ids[0])) for at, (consumer, ids) in enumerate(pages)}
    while left:
        commands = [
            _xpending(consumer, str(first), str(StreamId.parse(pages[at][1][-1])))
            for at, (consumer, first) in left.items()
        ]
        for (at, (consumer, _)), rows in zip([*left.items()], connection.commands(commands), strict=True):
            found[at].update((row[0], int(row[3])) for row in rows)
            if len(rows) < consumer.page_size:
                del left[at]
            else:
                left[at] = consumer, StreamId.parse(rows[-1][0]).next()
    return [
        np.array([counts.get(each, 1) for each in ids], np.int32) for (_, ids), counts in zip(pages, found, strict=True)
    ]


def _xpending(consumer: Consumer, first: str, last: str) -> Command:
    return ("XPENDING", consumer.stream, consumer.group, first, last, consumer.page_size, consumer.name)


def _xreadgroup(consumer: Consumer, count: int, after: str) -> Command:
    return ("XREADGROUP", "GROUP", consumer.group, consumer.name, "COUNT", count, "STREAMS", consumer.stream, after)


def _bodies(buffer: bytearray, start: int, stop: int, *, nested: bool) -> list[Body]:
    """Return the entries of a reply; an empty list if it has no entries.

    In a reply of XREADGROUP, they are nested after the stream's name.
    """
    count, at = array_header(buffer, start)
    if nested and count > 0:
        _, at = array_header(buffer, at)
        length = int(buffer[at + 1 : buffer.find(b"\r\n", at)])
        count, at = array_header(buffer, buffer.find(b"\r\n", at) + 2 + length + 2)
    return [Body(buffer, at, stop, count)] if count > 0 else []


def refusal(connection: Connection, consumer: Consumer, reply: ResponseError) -> Exception:
    """Return the error for a refused command: NOT_A_STREAM, GROUP_LOST, or the error of `refused`."""
    if "WRONGTYPE" in str(reply):
        return error("NOT_A_STREAM", stream=consumer.stream, address=connection.address)
    if "NOGROUP" in str(reply) or "no such key" in str(reply):
        return error("GROUP_LOST", stream=consumer.stream, address=connection.address, group=consumer.group)
    return refused(connection.address, "XREADGROUP", reply, consumer.stream)
