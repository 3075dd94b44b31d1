"""Taking part in a shared group: what one task of a batch does at the server.

Owns the one transaction in which a partition takes what is new, and the reading of what it took when it is run again.
The rules are in `spark_streams.read.shared.protocol`; keep to them: whatever is yielded here and nothing else is
acknowledged later.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import hiredis
import numpy as np
import pyarrow as pa
import redis

from spark_streams.client.connection import BROKEN, Command, Connection, Link
from spark_streams.client.retry import Budget, hopeless, is_transient
from spark_streams.codec.decode import decode_page
from spark_streams.codec.reply import Page, array_header
from spark_streams.errors import fail
from spark_streams.read.shared import dead_letters, protocol
from spark_streams.read.shared.protocol import Taker
from spark_streams.stream_id import ZERO, StreamId

_log = logging.getLogger("spark_streams")
_CLAIM_PAGE = 1000

Counts = Any
"""An int32 array: how often the group has delivered each entry of a page; None where nobody asked."""


Delivered = tuple[Page, Counts, Any]
"""A page, its counts, and a boolean array of the rows that are to be kept (None: all)."""


def pages(connection: Connection, taker: Taker) -> Iterator[Delivered]:
    """What the partition's consumer has, taken now if this is the first attempt to do so.

    If the connection breaks, or the server refuses for the moment, the ledger is asked again whether it was taken.
    """
    key = protocol.ledger(taker.stream, taker.group, taker.prefix)
    budget = Budget(connection.address.retry_ms)
    while True:
        link: Link | None = None
        cause: BaseException | None = None
        refusal = "somebody else writes the ledger all the time"
        try:
            link = connection.link(key)  # what a transaction watches is a matter of one link
            found = _attempt(connection, link, taker, key)
            if found is not None:
                break
        except _NotNow as now:
            connection.heed(link, str(now))
            refusal = str(now)
        except (*BROKEN, LookupError) as failure:
            connection.drop(link)
            cause = failure
        if (cause is not None and hopeless(cause)) or budget.spent():
            if cause is not None:
                raise connection.unreachable(cause) from cause
            fail("SERVER_REFUSED", address=connection.address, command="EXEC", reason=refusal)
    for page in found:
        yield from _delivered(connection, taker, page)


class _NotNow(Exception):  # noqa: N818 - it is no error
    """The server refused what it may not refuse a moment later."""


def _attempt(connection: Connection, link: Link, taker: Taker, key: bytes) -> Iterable[Page] | None:
    """What the partition has, or takes; None if somebody else wrote to the ledger meanwhile."""
    watched, known = link.pipeline([("WATCH", key), ("HMGET", key, protocol.DONE, taker.line)])
    for reply in (watched, known):
        if is_transient(reply):
            raise _NotNow(str(reply))
        if isinstance(reply, redis.ResponseError):
            fail("SERVER_REFUSED", address=connection.address, command="WATCH", reason=reply)
    done, line = known
    if line is None and int(done or 0) < taker.batch:
        return _take(connection, link, taker, key)
    link.pipeline([("UNWATCH",)])
    if line is not None:
        return _history(connection, taker)
    _log.warning("Batch %d of %s was finished before; nothing is taken again.", taker.batch, taker.stream)
    return ()


def _take(connection: Connection, link: Link, taker: Taker, key: bytes) -> list[Page] | None:
    """Take what is new, in the transaction that says so in the ledger; None if somebody else wrote there."""
    commands: list[Command] = []
    for minimum, ids in _claims(connection, taker) if taker.claim else ():
        commands.append(("XCLAIM", taker.stream, taker.group, taker.consumer, minimum, *ids))
    if taker.take:
        commands.append(_xreadgroup(taker, taker.take, ">"))
    # Each reply is followed by a word of its own, so that frames can be found without parsing what is before them.
    marked: list[Command] = [("MULTI",), ("HSET", key, taker.line, 1)]
    words = [secrets.token_hex(16).encode() for _ in commands]
    for command, word in zip(commands, words, strict=True):
        marked += [command, ("ECHO", word)]
    buffer, stop = link.receive(link.request([*marked, ("EXEC",)]))
    queued = b"+QUEUED\r\n" * (len(marked) - 1)
    if not buffer.startswith(b"+OK\r\n" + queued):
        _refuse(connection, taker, bytes(buffer[:stop]), taking=True)
    start = 5 + len(queued)
    if buffer.startswith((b"*-1\r\n", b"_\r\n"), start):
        return None
    head = buffer.find(b"\r\n", start) + 2
    at = buffer.find(b"\r\n", head) + 2  # behind HSET's reply
    found: list[Page] = []
    for word in words:
        end = buffer.find(b"$32\r\n" + word, at, stop)
        if buffer.startswith(b"-", at):
            _refuse(connection, taker, bytes(buffer[at:end]), taking=True)
        page = _page(buffer, at, end, nested=word == words[-1] and bool(taker.take))
        if page is not None:
            found.append(page)
        at = end + 5 + 32 + 2
    return found


def _claims(connection: Connection, taker: Taker) -> list[tuple[int, list[bytes]]]:
    """What to take over: with which idle time, and which IDs. XCLAIM asks the idle time again when it is executed."""
    reply = connection.command("XINFO", "CONSUMERS", taker.stream, taker.group)
    left = taker.claim
    claims: list[tuple[int, list[bytes]]] = []
    for one in reply:
        said = dict(zip(one[0::2], one[1::2], strict=True))
        batch = protocol.batch_of(said[b"name"], taker.prefix)
        dead = batch is not None and batch <= taker.since
        if not int(said[b"pending"]) or (batch is not None and not dead) or (not dead and taker.claim_idle is None):
            continue
        idle = 0 if dead or taker.claim_idle is None else taker.claim_idle
        condition: tuple[str | int, ...] = ("IDLE", idle) if idle else ()
        rows = connection.command("XPENDING", taker.stream, taker.group, *condition, "-", "+", left, said[b"name"])
        ids = [row[0] for row in rows]
        claims += [(idle, ids[i : i + _CLAIM_PAGE]) for i in range(0, len(ids), _CLAIM_PAGE)]
        left -= len(ids)
        if left <= 0:
            break
    return claims


def _xreadgroup(taker: Taker, count: int, after: str) -> Command:
    return ("XREADGROUP", "GROUP", taker.group, taker.consumer, "COUNT", count, "STREAMS", taker.stream, after)


def _page(buffer: bytearray, start: int, stop: int, *, nested: bool) -> Page | None:
    """The frames of a reply: those of XREADGROUP stand behind the stream's name."""
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


def _history(connection: Connection, taker: Taker) -> Iterator[Page]:
    """What the consumer has pending, which is what the first attempt took."""
    last = ZERO
    while True:
        request = _xreadgroup(taker, taker.page_size, str(last))
        buffer, stop = connection.receive(connection.request([request]))
        if buffer.startswith(b"-"):
            _refuse(connection, taker, bytes(buffer[:stop]))
        last_seen = _last_id(connection, taker, last)
        page = _page(buffer, 0, stop, nested=True)
        if page is not None:
            yield page
        if last_seen is None:
            return
        last = last_seen


def _last_id(connection: Connection, taker: Taker, after: StreamId) -> StreamId | None:
    """The ID that a page of history ends with, deleted entries included; None if nothing is left."""
    rows = connection.command(
        "XPENDING", taker.stream, taker.group, str(after.next()), "+", taker.page_size, taker.consumer
    )
    return StreamId.parse(rows[-1][0]) if rows else None


def _delivered(connection: Connection, taker: Taker, page: Page) -> Iterator[Delivered]:
    """The page with its entries' numbers of deliveries; without those that were delivered too often."""
    if taker.max_deliveries is None and not taker.counts:
        yield page, None, None
        return
    ids = page.ids().to_pylist()
    counts = _deliveries(connection, taker, ids)
    most = taker.max_deliveries
    if most is not None and counts.max(initial=0) > most:
        poison = np.flatnonzero(counts > most)
        dead_letters.move(connection, taker, page, poison.tolist(), counts[poison].tolist())
        yield page, pa.array(counts, pa.int32()), pa.array(counts <= most)
        return
    yield page, pa.array(counts, pa.int32()), None


def _deliveries(connection: Connection, taker: Taker, ids: Sequence[bytes]) -> Any:
    """How often each of these entries was delivered; they are in order, and all pending for the consumer."""
    found: dict[bytes, int] = {}
    last = StreamId.parse(ids[-1])
    after = StreamId.parse(ids[0])
    while True:
        rows = connection.command(
            "XPENDING", taker.stream, taker.group, str(after), str(last), taker.page_size, taker.consumer
        )
        found.update((row[0], int(row[3])) for row in rows)
        if len(rows) < taker.page_size:
            return np.array([found.get(one, 1) for one in ids], np.int32)
        after = StreamId.parse(rows[-1][0]).next()


def _refuse(connection: Connection, taker: Taker, reply: bytes, *, taking: bool = False) -> None:
    """Raise what the server answered instead."""
    reader = hiredis.Reader(replyError=redis.ResponseError)
    reader.feed(reply)
    said: Any = reader.gets()
    while said is not False and not isinstance(said, redis.ResponseError):
        said = reader.gets()
    if taking and is_transient(said):
        raise _NotNow(str(said))
    if "NOGROUP" in str(said):
        fail("GROUP_LOST", stream=taker.stream, address=connection.address, group=taker.group)
    fail("SERVER_REFUSED", address=connection.address, command="XREADGROUP", reason=said)
