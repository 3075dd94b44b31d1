"""Tasks of a shared group: read new entries once, and read the same entries again when a task is repeated.

This module owns the order of a task's steps. A task reads the ledger. Then it either checks for lost entries and reads
new ones in the transaction that writes the ledger's line, or it reads the consumer's history. The rules are in
`spark_streams.read.shared.protocol`. The entries that are yielded here must be exactly the entries that are
acknowledged later.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.columns.field_check import FieldCheck
from spark_streams.columns.read_schema import Origin, ReadSchema
from spark_streams.embedded import drivers
from spark_streams.errors import StreamError
from spark_streams.read.query import loss, misfits
from spark_streams.read.query.loss import Baseline
from spark_streams.read.query.partition import QueryPartition
from spark_streams.read.shared import dead_letters, joint_reads, protocol
from spark_streams.read.shared.protocol import SharedTask
from streamclient.codec.reply import Page
from streamclient.config.address import Address
from streamclient.connection import Command, Connection, Link
from streamclient.pool import borrow
from streamclient.refusals import RefusedForNowError, refused
from streamclient.retry import is_transient
from streamclient.streams.entries import xreadgroup
from streamclient.streams.entries.xreadgroup import Claim, Consumer
from streamclient.streams.groups import removed
from streamclient.streams.model import StreamState
from streamclient.streams.pages import PageSize
from streamclient.streams.stream_server import open_server
from streamclient.wire_errors import ResponseError

_log = logging.getLogger("spark_streams")

#: An int32 array: number of deliveries of each entry of a page; None if not requested.
Counts = Any

#: A page, its counts, and a boolean array of the rows to keep (None: all).
Delivered = tuple[Page, Counts, Any]

#: A page, its counts (None: not requested yet), a boolean array of the partition's rows (None: all), and the IDs of
#: lost entries.
Pending = tuple[Page, Any, Any, list[bytes]]


@dataclass(frozen=True)
class SharedPartition(QueryPartition):
    """Partition that some consumers of a shared group read. It is pickled on the driver and unpickled in the worker."""

    address: Address
    tasks: tuple[SharedTask, ...]
    checks_fields: bool = False

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """Yield the entries as record batches of that schema.

        Raises GROUP_LOST and ENTRIES_LOST, and the errors of `ReadSchema.batch` and `FieldCheck`.
        """
        check = FieldCheck(schema) if self.checks_fields else None
        counts: Counter[str] = Counter()
        drivers.check_reach(self.address)
        with borrow(self.address) as connection:
            tasks = [replace(each, counts=schema.counts_deliveries) for each in self.tasks]
            for page, origin, deliveries, mask in _all_pages(connection, tasks):
                for part, batch in schema.batches(page, origin, deliveries, mask, counts):
                    if check is not None:
                        check.see(part, batch)
                    if batch.num_rows:
                        yield batch
            misfits.report(connection, [*dict.fromkeys(task.stream for task in self.tasks)], counts)
        if check is not None:
            check.finish([*dict.fromkeys(task.stream for task in self.tasks)])


def _all_pages(connection: Connection, tasks: Sequence[SharedTask]) -> Iterator[tuple[Page, Origin, Counts, Any]]:
    """Yield pages of the tasks' entries, each with its streams, its numbers of deliveries, and the rows to keep."""
    size = PageSize(joint_reads.MOST_ENTRIES)
    for some in joint_reads.groups(tasks, size):
        found, left = joint_reads.read_new(connection, some, size)
        for new, origin, of_task in found:
            if not of_task:
                yield new, origin, None, None
            for task, known in of_task:
                consumer = Consumer(task.stream, task.group, task.consumer, task.page_size)
                for page, deliveries, mask in _delivered(connection, task, consumer, new, known, None):
                    yield page, task.stream, deliveries, mask
        for task in left:
            for page, deliveries, mask in _pages(connection, task):
                yield page, task.stream, deliveries, mask


def _pages(connection: Connection, task: SharedTask) -> Iterator[Delivered]:
    """Yield the pending entries of the partition's consumer.

    If losses are warnings rather than errors, a lost group is logged as a warning.
    """
    try:
        yield from _read(connection, task)
    except StreamError as problem:
        if task.fails or problem.condition != "GROUP_LOST":
            raise
        _log.warning("%s", problem)


def _read(connection: Connection, task: SharedTask) -> Iterator[Delivered]:
    """Yield the pending entries of the partition's consumer; the first attempt reads new entries.

    If the connection breaks or the server refuses temporarily, the next attempt finds in the ledger whether the entries
    were read.
    """
    consumer = Consumer(task.stream, task.group, task.consumer, task.page_size)
    key = protocol.ledger_key(task.stream, task.group, task.prefix)
    link: Link | None = None
    refusal = ""

    def attempt() -> Iterable[Pending] | None:
        nonlocal link, refusal
        link, refusal = None, "another client keeps changing the ledger"
        try:
            link = connection.link(key)  # WATCH is valid on one link only
            return _attempt(connection, link, task, consumer, key)
        except RefusedForNowError as cause:
            refusal = str(cause)
            connection.learn_from(refusal, link)
            return None

    found = connection.retry(attempt, lambda: connection.drop(link))
    if found is None:
        raise refused(connection.address, "EXEC", refusal)
    for page, counts, ours, missing in found:
        if missing:
            _lost(connection, task, missing)
        if page.count:
            yield from _delivered(connection, task, consumer, page, counts, ours)


def _lost(connection: Connection, task: SharedTask, missing: list[bytes]) -> None:
    """Report entries that were delivered to a consumer and trimmed or deleted since."""
    problem = protocol.lost(connection.address, task.stream, missing)
    if task.fails:
        raise problem
    _log.warning("%s", problem)


def _check_loss(connection: Connection, task: SharedTask, state: StreamState | None) -> None:
    """Report entries that were removed after the batch was planned and before the group read them."""
    found = None if state is None else loss.find_group_loss(state, task.known)
    if state is not None and state.group is not None and found is not None:
        baseline = Baseline(state.group.last_delivered_id)
        loss.raise_or_warn({task.stream: found}, {task.stream: baseline}, connection.address, fails=task.fails)


def _attempt(
    connection: Connection, link: Link, task: SharedTask, consumer: Consumer, key: bytes
) -> Iterable[Pending] | None:
    """Return the partition's entries; None if another client changed the ledger."""
    server = open_server(connection)
    streams = [task.stream]
    # Request the states first: EXEC ends a WATCH.
    state_reads = server.states.requests(streams, task.group, streams if task.scripted else ())
    had: Command = ("XPENDING", task.stream, task.group, "-", "+", 1, task.consumer)
    *states, watched, fields, pending = link.pipeline(
        [*state_reads, ("WATCH", key), ("HMGET", key, protocol.DONE, task.line), had]
    )
    for reply in (watched, fields, pending):
        if is_transient(reply):
            raise RefusedForNowError(str(reply))
    for reply in (watched, fields):
        if isinstance(reply, ResponseError):
            raise refused(connection.address, "WATCH", reply)
    done, line = fields
    if line is None and int(done or 0) < task.batch and isinstance(pending, list) and pending:
        _log.warning(
            "The ledger of %s was lost, but its consumer %s has already read its entries.", task.stream, task.consumer
        )
        line = b""
    if line is None and int(done or 0) < task.batch:
        state = server.states.parsed(streams, task.group, states)[task.stream]
        if task.reads:
            _check_loss(connection, task, state)
        claims = _claims(connection, task, consumer) if task.claims else []
        ids = [each for claim in claims for each in claim.ids]
        (missing,) = removed(connection, [(task.stream, task.group, ids, state)])
        if missing:
            _lost(connection, task, missing)
        write = ("HSET", key, task.line, task.run)
        pages = xreadgroup.read_new(connection, link, consumer, write, claims, task.reads)
        return None if pages is None else [(page, None, None, []) for page in pages]
    if line is not None and line != task.run.encode():
        if not xreadgroup.deliver_again(connection, link, consumer, ("HSET", key, task.line, task.run)):
            return None
        return xreadgroup.history(connection, consumer)
    link.pipeline([("UNWATCH",)])
    if line is not None:
        return xreadgroup.history(connection, consumer)
    _log.warning("Batch %d of %s is already finished; no entries are read again.", task.batch, task.stream)
    return ()


def _claims(connection: Connection, task: SharedTask, consumer: Consumer) -> list[Claim]:
    """Return the pending entries of other consumers that the task must claim."""

    def ask(*words: bytes | str | int) -> Any:
        (reply,) = connection.pipeline([words])
        if isinstance(reply, ResponseError):
            xreadgroup.refuse(connection, consumer, b"-%b\r\n" % str(reply).encode())
        return reply

    left = task.claims
    claims: list[Claim] = []
    for name, idle in protocol.claimable(task, ask("XINFO", "CONSUMERS", task.stream, task.group)):
        rows = ask(*protocol.pending_of(task, name, idle, left))
        if rows:
            claims.append(Claim(idle, [row[0] for row in rows]))
        left -= len(rows)
        if left <= 0:
            break
    return claims


def _delivered(
    connection: Connection, task: SharedTask, consumer: Consumer, page: Page, counts: Any, ours: Any
) -> Iterator[Delivered]:
    """Yield the page with its entries' numbers of deliveries; entries that were delivered too often become dead
    letters.
    """
    most = task.max_deliveries
    if counts is None and (most is not None or task.counts):
        counts = xreadgroup.deliveries(connection, consumer, page.id_texts())
    if most is not None and counts.max(initial=0) > most:  # the count is 0 for entries of other consumers
        dead = np.flatnonzero(counts > most)
        dead_letters.move(connection, task, page, dead.tolist(), counts[dead].tolist())
        ours = counts <= most if ours is None else ours & (counts <= most)
    yield page, None if counts is None else pa.array(counts, pa.int32()), None if ours is None else pa.array(ours)
