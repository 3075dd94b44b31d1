"""Tasks of a shared group: read new entries once, and read the same entries again when a task is repeated.

A batch has a number. Each of its partitions is one consumer of the group, `<prefix>-<batch>-<partition>`, and reads new
entries exactly once. The *ledger*, a hash in the stream's slot, has a line for each partition that has read, and the
last batch whose partitions are all finished. A task watches the ledger. If its line is missing, it checks for lost
entries, and reads new ones in the transaction that writes the line. So only one of two attempts reads, and every later
attempt and every replay gets the same entries from the consumer's history. The entries that are yielded here must be
exactly the entries that are acknowledged later.

A partition's line names the run of the query that has read the partition. All scans and retries in one run count as one
delivery, so they see the same rows. If another run repeats the batch, that run counts one more delivery and writes its
own ID.

The tasks of a partition take these steps together, because a transaction for each of a thousand streams costs more than
reading their entries. In a cluster each reads alone, because one transaction cannot have keys of several slots.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.errors import PystreamsError, ServerError, StreamError, fail
from spark_streams.read.query import loss
from spark_streams.read.query.loss import Baseline, Loss
from spark_streams.read.query.partition import Delivered, QueryPartition
from streamclient.codec.reply import Page
from streamclient.config.address import Address
from streamclient.connection import Command, Connection, Link
from streamclient.errors import ResponseError
from streamclient.refusals import RefusedForNowError, is_transient, refused
from streamclient.streams import dead_letters, group_pages
from streamclient.streams.group_pages import Claim, Consumer, Read
from streamclient.streams.groups import removed
from streamclient.streams.page_size import PageSize
from streamclient.streams.pages import Body, joined
from streamclient.streams.states import StreamState
from streamclient.streams.stream_server import open_server
from streamwire.slots import same_slot_tag
from streamwire.stream_id import StreamId

#: Field of the ledger with the last batch whose partitions are all finished.
DONE = "done"


@dataclass(frozen=True)
class SharedTask:
    """Limits for the entries that one partition of a batch reads from `stream`, as consumer `consumer` of `group`.

    `reads`: number of new entries. `claims`: number of entries to claim from other consumers. These entries are idle
    for `claim_idle` milliseconds, or belong to consumers of an earlier run of the query (batches up to `since`).
    Entries delivered more than `max_deliveries` times go to the stream `dead_letters`. `counts`: whether the rows need
    the number of deliveries. `page_size`: maximum number of entries in one reply of the consumer's history. `run`: ID
    of the query's current run. `fails`: whether missing entries are an error rather than a warning. `known`:
    baseline of the stream and the group when the batch was planned. `living`: prefixes of other queries, whose entries
    are not claimed while they run.
    """

    stream: str
    group: str
    prefix: str
    batch: int
    partition: int
    since: int
    reads: int
    claims: int = 0
    claim_idle: int | None = None
    max_deliveries: int | None = None
    dead_letters: str | None = None
    counts: bool = False
    page_size: int = 10_000
    run: str = ""
    fails: bool = True
    known: Baseline = loss.UNKNOWN
    living: frozenset[bytes] = frozenset()

    @property
    def consumer(self) -> str:
        """The partition's consumer name."""
        return f"{self.prefix}-{self.batch}-{self.partition}"

    @property
    def line(self) -> str:
        """The partition's field in the ledger."""
        return f"{self.batch}-{self.partition}"

    @property
    def ledger(self) -> bytes:
        """The key of the ledger."""
        return ledger_key(self.stream, self.group, self.prefix)

    @property
    def reader(self) -> Consumer:
        """The consumer, for which entries are read."""
        return Consumer(self.stream, self.group, self.consumer, self.page_size)


def ledger_key(stream: str, group: str, prefix: str) -> bytes:
    """Return the key of the ledger. It is in the stream's slot."""
    tag = same_slot_tag(stream.encode())
    return b"pystreams:{" + tag + b"}:taken:" + f"{len(stream)}:{stream}:{len(group)}:{group}:{prefix}".encode()


def batch_of(consumer: bytes, prefix: str) -> int | None:
    """Return the number of the batch that a consumer belongs to; None if it is not a consumer of this query."""
    found = re.fullmatch(re.escape(prefix.encode()) + rb"-([0-9]+)-[0-9]+", consumer)
    return int(found[1]) if found else None


def prefix_of(consumer: bytes) -> bytes | None:
    """Return the prefix of the query that a consumer belongs to; None if its name is not that of a query's consumer."""
    found = re.fullmatch(rb"(.+)-[0-9]+-[0-9]+", consumer, re.DOTALL)
    return found[1] if found else None


def claimable(task: SharedTask, consumers: Sequence[Any]) -> Iterator[tuple[bytes, int]]:
    """Yield the consumers in a reply to XINFO CONSUMERS from which the task may claim entries, with the minimum idle
    time.
    """
    for reply in consumers:
        info = dict(zip(reply[0::2], reply[1::2], strict=True))
        batch = batch_of(info[b"name"], task.prefix)
        dead = batch is not None and batch <= task.since
        foreign = batch is None and task.claim_idle is not None and prefix_of(info[b"name"]) not in task.living
        if int(info[b"pending"]) and (dead or foreign):
            yield info[b"name"], 0 if dead or task.claim_idle is None else task.claim_idle


def pending_of(task: SharedTask, consumer: bytes, idle: int, most: int) -> Command:
    """Return the command that lists at most `most` pending entries of a consumer that are idle for at least `idle`
    milliseconds.
    """
    condition: Command = ("IDLE", idle) if idle else ()
    return ("XPENDING", task.stream, task.group, *condition, "-", "+", most, consumer)


_log = logging.getLogger("spark_streams")

_MOST_TASKS = 100  # maximum number of tasks that read together
_MOST_ENTRIES = 10_000  # maximum number of entries that several tasks read together

#: An int32 array: number of deliveries of each entry of a page; None if not requested.
Counts = Any


@dataclass(frozen=True)
class SharedPartition(QueryPartition):
    """Partition that some consumers of a shared group read. It is pickled on the driver and unpickled in the worker."""

    address: Address
    tasks: tuple[SharedTask, ...]
    checks_fields: bool = False

    @property
    def streams(self) -> list[str]:
        return list(dict.fromkeys(task.stream for task in self.tasks))

    def pages(self, connection: Connection, schema: ReadSchema) -> Iterator[Delivered]:
        return _all_pages(connection, [replace(each, counts=schema.counts_deliveries) for each in self.tasks])


@dataclass
class _Found:
    """Result of an attempt to read for `tasks`.

    `together`: the new entries of tasks that need nothing else. `apart`: pages of other tasks, with the numbers of
    deliveries if requested. `histories`: tasks whose entries were read before. `entries` and `bytes`: number and size
    of the entries in `together` and `apart`.
    """

    tasks: Sequence[SharedTask]
    together: dict[SharedTask, list[Body]] = field(default_factory=dict)
    apart: dict[SharedTask, list[tuple[Page, Counts]]] = field(default_factory=dict)
    histories: set[SharedTask] = field(default_factory=set)
    entries: int = 0
    bytes: int = 0


def _all_pages(connection: Connection, tasks: Sequence[SharedTask]) -> Iterator[Delivered]:
    """Yield pages of the tasks' entries."""
    size = PageSize(_MOST_ENTRIES)
    groups = _groups(tasks, size, 1 if connection.topology.is_cluster else _MOST_TASKS)
    for found in itertools.chain.from_iterable(_read_together(connection, some) for some in groups):
        if found.entries:
            size.update(found.entries, found.bytes)
        yield from _in_order(connection, found)


def _in_order(connection: Connection, found: _Found) -> Iterator[Delivered]:
    """Yield the pages of some tasks in the order of the tasks.

    Every attempt has this order, whatever was read before: a write cannot be repeated with other rows in a chunk.
    """
    for is_together, tasks in itertools.groupby(found.tasks, found.together.__contains__):
        if is_together:
            bodies = [(task.stream, body) for task in tasks for body in found.together[task]]
            if bodies:
                counts = [(stream, body.count) for stream, body in bodies]
                yield joined([body for _, body in bodies]), counts, None, None
            continue
        for task in tasks:
            with _tolerating(task):
                for page, deliveries in found.apart.get(task, ()):
                    yield from _delivered(connection, task, page, deliveries, None)
                if task in found.histories:
                    yield from _history(connection, task)


def _groups(tasks: Sequence[SharedTask], size: PageSize, most_tasks: int) -> Iterator[list[SharedTask]]:
    """Yield the tasks in order, in groups that read in one transaction. In a cluster, each reads alone.

    All entries that a group reads are in memory at once. `size` adapts while the tasks read: if their entries have many
    megabytes, a group has at most two tasks.
    """
    found: list[SharedTask] = []
    entries = 0
    for task in tasks:
        wanted = task.reads + task.claims
        most = _MOST_ENTRIES if len(found) < 2 else size.now
        if found and (len(found) == most_tasks or entries + wanted > most):
            yield found
            found, entries = [], 0
        found.append(task)
        entries += wanted
    if found:
        yield found


@contextmanager
def _tolerating(task: SharedTask) -> Iterator[None]:
    """If losses are warnings rather than errors, log a lost group as a warning."""
    try:
        yield
    except StreamError as problem:
        if task.fails or problem.condition != "GROUP_LOST":
            raise
        _log.warning("%s", problem)


def _read_together(connection: Connection, tasks: Sequence[SharedTask]) -> Iterator[_Found]:
    """Read the tasks' entries together; each alone if a proxy hides a cluster, whose transactions have one slot."""
    try:
        yield _read(connection, tasks)
    except ServerError as refusal:
        if len(tasks) == 1 or "CROSSSLOT" not in str(refusal):
            raise
        for task in tasks:
            yield _read(connection, [task])


def _read(connection: Connection, tasks: Sequence[SharedTask]) -> _Found:
    """Read the tasks' entries; the first attempt reads new entries.

    If the connection breaks or the server refuses temporarily, the next attempt finds in the ledgers which entries were
    read.
    """
    link: Link | None = None
    refusal = ""

    def attempt() -> _Found | None:
        nonlocal link, refusal
        link, refusal = None, "another client keeps changing the ledger"
        try:
            link = connection.link(tasks[0].ledger)  # WATCH is valid on one link only
            return _attempt(connection, link, tasks)
        except RefusedForNowError as cause:
            refusal = str(cause)
            connection.learn_from(refusal, link)
            return None

    found = connection.retry(attempt, lambda _: connection.drop(link))
    if found is None:
        raise refused(connection.address, "EXEC", refusal)
    return found


def _attempt(connection: Connection, link: Link, tasks: Sequence[SharedTask]) -> _Found | None:
    """Read the tasks' new entries, or find that they were read; None if another client changed a ledger."""
    server = open_server(connection)
    streams, group = [*dict.fromkeys(task.stream for task in tasks)], tasks[0].group
    # Request the states first: EXEC ends a WATCH.
    state_reads = server.states.requests(streams, group)
    commands: list[Command] = [*state_reads, ("WATCH", *(task.ledger for task in tasks))]
    commands += [("HMGET", task.ledger, DONE, task.line) for task in tasks]
    commands += [("XPENDING", task.stream, group, "-", "+", 1, task.consumer) for task in tasks]
    answers = link.pipeline(commands)
    watched, *replies = answers[len(state_reads) :]
    lines, pending = replies[: len(tasks)], replies[len(tasks) :]
    for reply in (watched, *replies):
        if is_transient(reply):
            raise RefusedForNowError(str(reply))
    for reply in (watched, *lines):
        if isinstance(reply, ResponseError):
            raise refused(connection.address, "WATCH", reply)
    found = _Found(tasks)
    fresh: list[SharedTask] = []
    again: list[SharedTask] = []
    for task, (done, line), had in zip(tasks, lines, pending, strict=True):
        is_open = line is None and int(done or 0) < task.batch
        if is_open and isinstance(had, list) and had:
            lost = "The ledger of %s was lost, but its consumer %s has already read its entries."
            _log.warning(lost, task.stream, task.consumer)
            line, is_open = b"", False
        if is_open:
            fresh.append(task)
        elif line is None:
            _log.warning("Batch %d of %s is already finished; no entries are read again.", task.batch, task.stream)
        else:
            found.histories.add(task)
            again += [] if line == task.run.encode() else [task]
    claims: dict[SharedTask, list[Claim]] = {}
    if fresh:
        states = server.states.parsed(streams, group, answers[: len(state_reads)])
        _check_losses(connection, fresh, states)
        claims = _claims(connection, fresh, states)
        fresh = [task for task in fresh if task in claims]
    reads = {
        task: Read(task.reader, ("HSET", task.ledger, task.line, task.run), task.reads, claims[task]) for task in fresh
    }
    reads |= {task: Read(task.reader, ("HSET", task.ledger, task.line, task.run), again=True) for task in again}
    if not reads:
        link.pipeline([("UNWATCH",)])
        return found
    executed = group_pages.execute(connection, link, [*reads.values()])
    if executed is None:
        return None
    _sort(connection, dict(zip(reads, executed, strict=True)), found)
    return found


def _sort(connection: Connection, executed: Mapping[SharedTask, list[Body] | Exception], found: _Found) -> None:
    """Add the entries of executed reads to `found`, with the numbers of deliveries if requested. Raises the errors of
    reads.
    """
    apart: list[tuple[SharedTask, Page]] = []
    for task, result in executed.items():
        with _tolerating(task):
            if isinstance(result, Exception):
                found.histories.discard(task)
                raise result
            found.entries += sum(body.count for body in result)
            found.bytes += sum(body.stop - body.start for body in result)
            if task in found.histories:
                continue
            if task.claims or task.counts or task.max_deliveries is not None:
                pages = [body.page() for body in result]
                apart += [(task, page) for page in pages if page.count]  # XCLAIM before Redis 7 replies nil if deleted
            else:
                found.together[task] = result
    counted = [(task, page) for task, page in apart if task.counts or task.max_deliveries is not None]
    deliveries = group_pages.deliveries(connection, [(task.reader, page.id_texts()) for task, page in counted])
    by_page = {id(page): counts for (_, page), counts in zip(counted, deliveries, strict=True)}
    for task, page in apart:
        found.apart.setdefault(task, []).append((page, by_page.get(id(page))))


def _lost(connection: Connection, task: SharedTask, missing: Sequence[bytes]) -> None:
    """Report entries that were delivered to a consumer and trimmed or deleted since."""
    loss.raise_or_warn({task.stream: loss.of_entries(missing)}, connection.address, fails=task.fails)


def _check_losses(
    connection: Connection, tasks: Sequence[SharedTask], states: Mapping[str, StreamState | None]
) -> None:
    """Report entries that were removed after the batch was planned and before the group read them."""
    losses: dict[str, Loss] = {}
    for task in tasks:
        state = states[task.stream]
        found = None if state is None or not task.reads else loss.find_group_loss(state, task.known)
        if found is not None:
            losses[task.stream] = found
    loss.raise_or_warn(losses, connection.address, fails=tasks[0].fails)


def _claims(
    connection: Connection, tasks: Sequence[SharedTask], states: Mapping[str, StreamState | None]
) -> dict[SharedTask, list[Claim]]:
    """Return the pending entries of other consumers that each task must claim, in the order of their IDs, which is also
    the order of a history, and report those that no longer exist.

    Tasks whose group is lost are absent.
    """
    claims: dict[SharedTask, list[tuple[bytes, int]]] = {task: [] for task in tasks}  # IDs, each with the idle time

    def ask(commands: Mapping[SharedTask, Command]) -> dict[SharedTask, Any]:
        found: dict[SharedTask, Any] = {}
        for task, reply in zip(commands, connection.pipeline([*commands.values()]), strict=True):
            with _tolerating(task):
                if isinstance(reply, ResponseError):
                    claims.pop(task)
                    raise group_pages.refusal(connection, task.reader, reply)
                found[task] = reply
        return found

    listed = ask({task: ("XINFO", "CONSUMERS", task.stream, task.group) for task in tasks if task.claims})
    others = {task: claimable(task, consumers) for task, consumers in listed.items()}
    left = {task: task.claims for task in others}
    while asked := {task: each for task in left if (each := next(others[task], None)) is not None}:
        rows = ask({task: pending_of(task, *each, left[task]) for task, each in asked.items()})
        for task, found in rows.items():
            claims[task] += [(row[0], asked[task][1]) for row in found]
        left = {task: left[task] - len(found) for task, found in rows.items() if left[task] > len(found)}
    for its in claims.values():
        its.sort(key=lambda each: StreamId.parse(each[0]))
    ids = {task: [each for each, _ in its] for task, its in claims.items()}
    gone = removed(connection, [(task.stream, task.group, its, states[task.stream]) for task, its in ids.items()])
    for task, missing in zip(ids, gone, strict=True):
        if missing:
            _lost(connection, task, missing)
    return {
        task: [Claim(idle, [each for each, _ in some]) for idle, some in itertools.groupby(its, itemgetter(1))]
        for task, its in claims.items()
    }


def _history(connection: Connection, task: SharedTask) -> Iterator[Delivered]:
    """Yield the entries pending for the task's consumer."""
    for page, counts, ours, missing in group_pages.history(connection, task.reader):
        if missing:
            _lost(connection, task, missing)
        if page.count:
            yield from _delivered(connection, task, page, counts, ours)


def _delivered(connection: Connection, task: SharedTask, page: Page, counts: Counts, ours: Any) -> Iterator[Delivered]:
    """Yield the page with its entries' numbers of deliveries; entries that were delivered too often become dead
    letters.
    """
    most = task.max_deliveries
    if most is not None and counts.max(initial=0) > most:  # the count is 0 for entries of other consumers
        dead = np.flatnonzero(counts > most)
        _move_dead(connection, task, page, dead.tolist(), counts[dead].tolist())
        ours = counts <= most if ours is None else ours & (counts <= most)
    yield (
        page,
        task.stream,
        None if counts is None else pa.array(counts, pa.int32()),
        None if ours is None else pa.array(ours),
    )


def _move_dead(
    connection: Connection, task: SharedTask, page: Page, rows: Sequence[int], deliveries: Sequence[int]
) -> None:
    """Make these rows of a page letters, unless an earlier scan has done that. `deliveries`: a number for each row.

    Raises GROUP_LOST, and the errors of `dead_letters.move`.
    """
    ids, stream = page.id_texts(), task.stream.encode()
    origin = dead_letters.Pending(stream, task.group.encode(), task.consumer.encode(), task.max_deliveries or 0)
    reason = b"delivered more than %d times" % origin.most
    offsets, names, values = page.fields()
    entries = []
    for row, count in zip(rows, deliveries, strict=True):
        first, last = offsets[row].as_py(), offsets[row + 1].as_py()
        keys, texts = (column.slice(first, last - first).to_pylist() for column in (names, values))
        head = (stream, ids[row], b"%d" % count, reason)
        entries.append(
            dead_letters.Entry(
                ids[row],
                [word for pair in zip(keys, texts, strict=True) for word in pair],
                [word for pair in zip(dead_letters.FIELDS, head, strict=True) for word in pair],
            )
        )
    try:
        dead_letters.move(connection, origin, (task.dead_letters or "").encode(), entries)
    except PystreamsError as failure:
        if "NOGROUP" in failure.parameters.get("reason", ""):
            fail("GROUP_LOST", stream=task.stream, address=connection.address, group=task.group)
        raise
