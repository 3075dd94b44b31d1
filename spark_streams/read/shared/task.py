"""What one task of a batch does in a shared group: read new entries once, and read them again when it is repeated.

Owns the transaction in which a partition reads new entries, and the reading of its consumer's history on later
attempts. The rules are in `spark_streams.read.shared.protocol`. Keep to them: exactly what is yielded here is
acknowledged later.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import hiredis
import numpy as np
import pyarrow as pa
import redis
from pyspark.sql.datasource import InputPartition

from spark_streams.client.connection import Command, Connection, Link
from spark_streams.client.pool import borrow
from spark_streams.client.retry import is_transient
from spark_streams.codec.decode import decode_page
from spark_streams.codec.reply import Page, array_header
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.address import Address
from spark_streams.embedded import launcher
from spark_streams.errors import fail
from spark_streams.read.shared import dead_letters, protocol
from spark_streams.read.shared.protocol import SharedTask
from spark_streams.stream_id import ZERO, StreamId

_log = logging.getLogger("spark_streams")
_CLAIM_PAGE = 1000

Counts = Any
"""An int32 array: how often the group has delivered each entry of a page; None where nobody asked."""

Delivered = tuple[Page, Counts, Any]
"""A page, its counts, and a boolean array of the rows to keep (None: all)."""


@dataclass(frozen=True)
class SharedPartition(InputPartition):
    """What one consumer of a shared group reads. Pickled on the driver, unpickled in the worker."""

    address: Address
    task: SharedTask

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """The entries as record batches of that schema. Raises GROUP_LOST if the group is gone."""
        schema = schema.in_session()
        launcher.check_reach(self.address)
        with borrow(self.address) as connection:
            task = replace(self.task, counts=schema.counts_deliveries)
            for page, deliveries, kept in _pages(connection, task):
                batch = schema.batch(page, task.stream, deliveries, kept)
                if batch.num_rows:
                    yield batch


def _pages(connection: Connection, task: SharedTask) -> Iterator[Delivered]:
    """What the partition's consumer has pending; the first attempt reads new entries.

    If the connection breaks, or the server refuses for the moment, the ledger tells whether they were read.
    """
    key = protocol.ledger_key(task.stream, task.group, task.prefix)
    link: Link | None = None
    refusal = ""

    def attempt() -> Iterable[Page] | None:
        nonlocal link, refusal
        link, refusal = None, "somebody else writes the ledger all the time"
        try:
            link = connection.link(key)  # WATCH belongs to one link
            return _attempt(connection, link, task, key)
        except _NotNow as now:
            connection.learn_from(str(now), link)
            refusal = str(now)
            return None

    found = connection.retry(attempt, lambda: connection.drop(link))
    if found is None:
        fail("SERVER_REFUSED", address=connection.address, command="EXEC", reason=refusal)
    for page in found:
        yield from _delivered(connection, task, page)


class _NotNow(Exception):  # noqa: N818 - it is no error
    """The server refused what it may accept a moment later."""


def _attempt(connection: Connection, link: Link, task: SharedTask, key: bytes) -> Iterable[Page] | None:
    """The partition's entries; None if somebody else wrote to the ledger meanwhile."""
    watched, fields = link.pipeline([("WATCH", key), ("HMGET", key, protocol.DONE, task.line)])
    for reply in (watched, fields):
        if is_transient(reply):
            raise _NotNow(str(reply))
        if isinstance(reply, redis.ResponseError):
            fail("SERVER_REFUSED", address=connection.address, command="WATCH", reason=reply)
    done, line = fields
    if line is None and int(done or 0) < task.batch:
        return _read_new(connection, link, task, key)
    link.pipeline([("UNWATCH",)])
    if line is not None:
        return _history(connection, task)
    _log.warning("Batch %d of %s was finished before; no entries are read again.", task.batch, task.stream)
    return ()


def _read_new(connection: Connection, link: Link, task: SharedTask, key: bytes) -> list[Page] | None:
    """Claim and read entries in the transaction that writes the ledger's line; None if somebody else wrote there."""
    commands: list[Command] = []
    for minimum, ids in _claims(connection, task) if task.claims else ():
        commands.append(("XCLAIM", task.stream, task.group, task.consumer, minimum, *ids))
    if task.reads:
        commands.append(_xreadgroup(task, task.reads, ">"))
    # Each reply is followed by a token of its own, so that its end is found without parsing it.
    marked: list[Command] = [("MULTI",), ("HSET", key, task.line, 1)]
    tokens = [secrets.token_hex(16).encode() for _ in commands]
    for command, token in zip(commands, tokens, strict=True):
        marked += [command, ("ECHO", token)]
    buffer, stop = link.receive(link.request([*marked, ("EXEC",)]))
    queued = b"+QUEUED\r\n" * (len(marked) - 1)
    if not buffer.startswith(b"+OK\r\n" + queued):
        _refuse(connection, task, bytes(buffer[:stop]), in_transaction=True)
    start = 5 + len(queued)
    if buffer.startswith((b"*-1\r\n", b"_\r\n"), start):
        return None
    head = buffer.find(b"\r\n", start) + 2
    at = buffer.find(b"\r\n", head) + 2  # behind HSET's reply
    found: list[Page] = []
    for token in tokens:
        end = buffer.find(b"$32\r\n" + token, at, stop)
        if buffer.startswith(b"-", at):
            _refuse(connection, task, bytes(buffer[at:end]), in_transaction=True)
        page = _page(buffer, at, end, nested=token == tokens[-1] and bool(task.reads))
        if page is not None:
            found.append(page)
        at = end + 5 + 32 + 2
    return found


def _claims(connection: Connection, task: SharedTask) -> list[tuple[int, list[bytes]]]:
    """What to claim: IDs, with the idle time in milliseconds that XCLAIM checks again when it is executed."""
    left = task.claims
    claims: list[tuple[int, list[bytes]]] = []
    for reply in connection.command("XINFO", "CONSUMERS", task.stream, task.group):
        consumer = dict(zip(reply[0::2], reply[1::2], strict=True))
        batch = protocol.batch_of(consumer[b"name"], task.prefix)
        dead = batch is not None and batch <= task.since
        if not int(consumer[b"pending"]) or (batch is not None and not dead) or (not dead and task.claim_idle is None):
            continue
        idle = 0 if dead or task.claim_idle is None else task.claim_idle
        condition: tuple[str | int, ...] = ("IDLE", idle) if idle else ()
        rows = connection.command("XPENDING", task.stream, task.group, *condition, "-", "+", left, consumer[b"name"])
        ids = [row[0] for row in rows]
        claims += [(idle, ids[i : i + _CLAIM_PAGE]) for i in range(0, len(ids), _CLAIM_PAGE)]
        left -= len(ids)
        if left <= 0:
            break
    return claims


def _xreadgroup(task: SharedTask, count: int, after: str) -> Command:
    return ("XREADGROUP", "GROUP", task.group, task.consumer, "COUNT", count, "STREAMS", task.stream, after)


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


def _history(connection: Connection, task: SharedTask) -> Iterator[Page]:
    """What the consumer has pending, which is what the first attempt read."""
    last = ZERO
    while True:
        request = _xreadgroup(task, task.page_size, str(last))
        buffer, stop = connection.receive(connection.request([request]))
        if buffer.startswith(b"-"):
            _refuse(connection, task, bytes(buffer[:stop]))
        page_end = _page_end(connection, task, last)
        page = _page(buffer, 0, stop, nested=True)
        if page is not None:
            yield page
        if page_end is None:
            return
        last = page_end


def _page_end(connection: Connection, task: SharedTask, after: StreamId) -> StreamId | None:
    """The last ID of a page of history, deleted entries included; None if nothing is left."""
    rows = connection.command(
        "XPENDING", task.stream, task.group, str(after.next()), "+", task.page_size, task.consumer
    )
    return StreamId.parse(rows[-1][0]) if rows else None


def _delivered(connection: Connection, task: SharedTask, page: Page) -> Iterator[Delivered]:
    """The page with its entries' numbers of deliveries; entries that were delivered too often become dead letters."""
    if task.max_deliveries is None and not task.counts:
        yield page, None, None
        return
    ids = page.ids().to_pylist()
    counts = _deliveries(connection, task, ids)
    most = task.max_deliveries
    if most is not None and counts.max(initial=0) > most:
        poison = np.flatnonzero(counts > most)
        dead_letters.move(connection, task, page, poison.tolist(), counts[poison].tolist())
        yield page, pa.array(counts, pa.int32()), pa.array(counts <= most)
        return
    yield page, pa.array(counts, pa.int32()), None


def _deliveries(connection: Connection, task: SharedTask, ids: Sequence[bytes]) -> Any:
    """How often each of these entries was delivered. They are in order, and pending for the consumer."""
    found: dict[bytes, int] = {}
    last = StreamId.parse(ids[-1])
    after = StreamId.parse(ids[0])
    while True:
        rows = connection.command(
            "XPENDING", task.stream, task.group, str(after), str(last), task.page_size, task.consumer
        )
        found.update((row[0], int(row[3])) for row in rows)
        if len(rows) < task.page_size:
            return np.array([found.get(one, 1) for one in ids], np.int32)
        after = StreamId.parse(rows[-1][0]).next()


def _refuse(connection: Connection, task: SharedTask, reply: bytes, *, in_transaction: bool = False) -> None:
    """Raise the first error among the server's replies."""
    reader = hiredis.Reader(replyError=redis.ResponseError)
    reader.feed(reply)
    refusal: Any = reader.gets()
    while refusal is not False and not isinstance(refusal, redis.ResponseError):
        refusal = reader.gets()
    if in_transaction and is_transient(refusal):
        raise _NotNow(str(refusal))
    if "NOGROUP" in str(refusal):
        fail("GROUP_LOST", stream=task.stream, address=connection.address, group=task.group)
    fail("SERVER_REFUSED", address=connection.address, command="XREADGROUP", reason=refusal)
