"""Reads entries for one consumer of a group: new ones within a transaction, or the consumer's history.

Replies are cut into pages of entries without being parsed. Knows the codec's pages and a connection; it does not know
why a transaction is needed, nor who else reads from the group.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
import numpy as np
import redis

from spark_streams.client.connection import Command, Connection, Link
from spark_streams.client.retry import is_transient
from spark_streams.codec.decode import decode_page
from spark_streams.codec.reply import Page, array_header
from spark_streams.errors import fail
from spark_streams.stream_id import ZERO, StreamId

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
    """Pending entries of other consumers to claim, if they are idle for `idle` milliseconds when it is executed."""

    idle: int
    ids: Sequence[bytes]


class RefusedForNowError(Exception):
    """The server refused what it may accept a moment later, or another one may; the text is its error reply."""


def read_new(
    connection: Connection, link: Link, consumer: Consumer, first: Command, claims: Sequence[Claim], count: int
) -> list[Page] | None:
    """Claim entries and read `count` new ones, in one transaction with the command `first`.

    Returns None if a key that is watched on the link was changed: nothing was executed. Raises `BROKEN`,
    RefusedForNowError, GROUP_LOST and SERVER_REFUSED.
    """
    commands: list[Command] = []
    for claim in claims:
        pages = (claim.ids[i : i + _CLAIM_PAGE] for i in range(0, len(claim.ids), _CLAIM_PAGE))
        commands += [("XCLAIM", consumer.stream, consumer.group, consumer.name, claim.idle, *ids) for ids in pages]
    if count:
        commands.append(_xreadgroup(consumer, count, ">"))
    # Each reply is followed by a token of its own, so that its end is found without parsing it.
    marked: list[Command] = [("MULTI",), first]
    tokens = [secrets.token_hex(16).encode() for _ in commands]
    for command, token in zip(commands, tokens, strict=True):
        marked += [command, ("ECHO", token)]
    buffer, stop = link.receive(link.request([*marked, ("EXEC",)]))
    queued = b"+QUEUED\r\n" * (len(marked) - 1)
    if not buffer.startswith(b"+OK\r\n" + queued):
        _refuse(connection, consumer, bytes(buffer[:stop]), in_transaction=True)
    start = 5 + len(queued)
    if buffer.startswith((b"*-1\r\n", b"_\r\n"), start):
        return None
    head = buffer.find(b"\r\n", start) + 2
    at = buffer.find(b"\r\n", head) + 2  # behind the first command's reply, one line
    found: list[Page] = []
    for token in tokens:
        end = buffer.find(b"$32\r\n" + token, at, stop)
        if buffer.startswith(b"-", at):
            _refuse(connection, consumer, bytes(buffer[at:end]), in_transaction=True)
        page = _page(buffer, at, end, nested=token == tokens[-1] and bool(count))
        if page is not None:
            found.append(page)
        at = end + 5 + 32 + 2
    return found


def history(connection: Connection, consumer: Consumer) -> Iterator[Page]:
    """The entries that are pending for the consumer. Raises GROUP_LOST and SERVER_REFUSED."""
    last = ZERO
    while True:
        request = _xreadgroup(consumer, consumer.page_size, str(last))
        buffer, stop = connection.receive(connection.request([request]))
        if buffer.startswith(b"-"):
            _refuse(connection, consumer, bytes(buffer[:stop]))
        page_end = _page_end(connection, consumer, last)
        page = _page(buffer, 0, stop, nested=True)
        if page is not None:
            yield page
        if page_end is None:
            return
        last = page_end


def deliveries(connection: Connection, consumer: Consumer, ids: Sequence[bytes]) -> Any:
    """How often each of these entries was delivered: an int32 array.

    The IDs are in order, and pending for the consumer.
    """
    found: dict[bytes, int] = {}
    last = str(StreamId.parse(ids[-1]))
    after = StreamId.parse(ids[0])
    while True:
        rows = _pending(connection, consumer, str(after), last)
        found.update((row[0], int(row[3])) for row in rows)
        if len(rows) < consumer.page_size:
            return np.array([found.get(one, 1) for one in ids], np.int32)
        after = StreamId.parse(rows[-1][0]).next()


def _page_end(connection: Connection, consumer: Consumer, after: StreamId) -> StreamId | None:
    """The last ID of a page of history, deleted entries included; None if nothing is left."""
    rows = _pending(connection, consumer, str(after.next()), "+")
    return StreamId.parse(rows[-1][0]) if rows else None


def _pending(connection: Connection, consumer: Consumer, first: str, last: str) -> Any:
    """A page of the consumer's pending entries: ID, consumer, idle time, number of deliveries."""
    return connection.command(
        "XPENDING", consumer.stream, consumer.group, first, last, consumer.page_size, consumer.name
    )


def _xreadgroup(consumer: Consumer, count: int, after: str) -> Command:
    return ("XREADGROUP", "GROUP", consumer.group, consumer.name, "COUNT", count, "STREAMS", consumer.stream, after)


def _page(buffer: bytearray, start: int, stop: int, *, nested: bool) -> Page | None:
    """The entries of a reply, None if there are none. Those of XREADGROUP are nested behind the stream's name."""
    count, at = array_header(buffer, start)
    if count <= 0:
        return None
    if nested:
        _, at = array_header(buffer, at)
        length = int(buffer[at + 1 : buffer.find(b"\r\n", at)])
        at = buffer.find(b"\r\n", at) + 2 + length + 2
        count, at = array_header(buffer, at)
    page = decode_page(buffer, at, stop, count) if count > 0 else None
    return page if page is not None and page.count else None


def _refuse(connection: Connection, consumer: Consumer, reply: bytes, *, in_transaction: bool = False) -> None:
    """Raise the first error among the server's replies."""
    reader = hiredis.Reader(replyError=redis.ResponseError)
    reader.feed(reply)
    refusal: Any = reader.gets()
    while refusal is not False and not isinstance(refusal, redis.ResponseError):
        refusal = reader.gets()
    if in_transaction and is_transient(refusal):
        raise RefusedForNowError(str(refusal))
    if "NOGROUP" in str(refusal):
        fail("GROUP_LOST", stream=consumer.stream, address=connection.address, group=consumer.group)
    fail("SERVER_REFUSED", address=connection.address, command="XREADGROUP", reason=refusal)
