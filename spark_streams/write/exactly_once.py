"""Writing every row exactly once: each chunk is sent in transactions that advance the fences of its streams.

`ExactlyOnceSender` decides for each stream whether a task writes its rows, or stages them for the driver to publish. It
divides the rows into transactions: by slot in a cluster, and with rows that have their own IDs separate from other
rows. `SlotTransaction` writes the rows of one slot (of all streams, without a cluster):

    WATCH fence record...; HMGET each       `StreamFence` computes the rows that are left to write
    MULTI; XADD...; XTRIM...; HSET fence...; PEXPIRE fence...; EXEC

A server that has PS.ADD gets one PS.ADD per stream instead of XADDs if the rows consist of columns without nulls
(`encoding.as_columns`).

If EXEC finds a fence changed, or the connection breaks and it is unknown whether EXEC was executed, the fences are read
again. The batch's record determines whether this attempt may write; the first transaction of a batch creates it
(`protocol`). The next chunk's WATCH directly follows EXEC, and the next chunk is encoded while the server works, so a
chunk costs one round trip.

A transaction is not rolled back if one of its commands fails when it is executed. Possible failures are ruled out in
advance: the key is not a stream, or a row's own ID is too small. To rule out the latter, the stream is watched as well,
so that no other client adds to it meanwhile. If the server still refuses a row because of its contents, the fence
records the refusal. Every later attempt then fails with the same message, so the row is not silently omitted. If the
server refuses all rows for another reason (`streamclient.refusals.Refusal`), the fence is reset, and the next attempt
writes the rows. An example is a permission that was revoked after the rows were queued.

Staged rows wait in a hash next to their stream until the driver publishes them. The hash is in the stream's slot and
expires, so rows that are never published disappear. The rows are in numbered chunks, and each chunk is published as one
transaction. A chunk has the rows as commands, the task's fence as it is once the rows are added, and an index for a
driver that must send the rows itself.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError, fail
from spark_streams.write import encoding
from spark_streams.write.encoding import EncodedRows, check_ids, runs, trim_commands
from spark_streams.write.executor import gone_streams, stream_state
from spark_streams.write.protocol import Event, Protocol, StreamFence, allows
from spark_streams.write.records import (
    FENCE_FIELDS,
    RECORD_FIELDS,
    BatchRecord,
    ChunkState,
    FenceState,
    RowDigest,
    StreamState,
    TaskRows,
    WriterId,
    shown,
    staged_chunk,
)
from streamclient.capabilities import is_refused
from streamclient.connection import Command, Connection, Link
from streamclient.errors import LinkError, ResponseError
from streamclient.refusals import Refusal, is_transient, reason_of, redirection, refusal_of, refused, row_refused
from streamclient.replies import TransactionResult, pack, transaction_result
from streamwire.slots import slot_of
from streamwire.stream_id import ZERO, StreamId

# --- Transactions of one slot

_ASKING_REPLY = b"+OK\r\n"


@dataclass(frozen=True)
class Terms:
    """State that all transactions of a task share. `event`: a task writes, or a driver publishes its staged rows."""

    protocol: Protocol
    options: WriteOptions
    event: Event = Event.WRITE


@dataclass(frozen=True)
class Entry:
    """A stream's state before a task's first row.

    `record`: the batch record, which this attempt may replace later. `done`: digest of the rows that the task need not
    write.
    """

    record: BatchRecord = field(default_factory=BatchRecord)
    state: StreamState = field(default_factory=StreamState)
    done: RowDigest = field(default_factory=RowDigest)


@dataclass(frozen=True)
class _Step:
    """Rows of one stream within a transaction, and the state of their fence afterwards."""

    fence: StreamFence
    rows: EncodedRows
    state: FenceState


class SlotTransaction:
    """Writes the rows of one slot, one transaction at a time.

    `owners`: the slot transaction that uses each link, because WATCH and MULTI belong to a link. Raises ROW_REFUSED,
    SERVER_REFUSED, NOT_A_STREAM, WRITE_CONTENDED, NOT_REPLICATED, and the errors of `StreamFence`.
    """

    def __init__(self, connection: Connection, terms: Terms, owners: dict[Link, SlotTransaction]) -> None:
        self._connection = connection
        self._terms = terms
        self._owners = owners
        self._entries: dict[bytes, Entry] = {}
        self._opened: set[bytes] = set()  # streams whose record belongs to this attempt
        self._fences: dict[bytes, StreamFence] = {}
        self._watched: set[bytes] = set()  # keys of fences that are watched, and whose state is known
        self._pending: list[EncodedRows] = []  # rows that may not be in the streams yet
        self._sent: list[_Step] = []  # the pending rows that were sent
        self._link: Link | None = None
        self._token = b""
        self._asking = False  # whether ASKING was sent before the transaction
        self._columns = encoding.accepts_columns(connection)  # whether rows may be sent as columns
        self._by_columns = False  # whether the rows in flight were sent as columns
        self._others: list[Command] = []  # commands in the transaction after the rows
        self._read_behind: list[StreamFence] = []  # fences that are read after the transaction

    @property
    def fences(self) -> list[StreamFence]:
        """The fences of the streams with rows so far."""
        return [*self._fences.values()]

    def enter(self, stream: bytes, entry: Entry) -> None:
        """Add a stream to which rows will be written."""
        self._entries[stream] = entry

    def send(self, rows: list[EncodedRows]) -> None:
        """Send the rows that are not in the streams yet. No other rows may be pending."""
        self._pending = rows
        self._until_done(self._send)

    def finish(self) -> None:
        """Wait until the pending rows are in the streams."""
        if self._pending:
            self._until_done(self._settle)

    def leave_link(self) -> None:
        """Finish and lose the watches, because another slot's transaction uses the link from now on."""
        self.finish()
        self._watched.clear()

    def _take(self, link: Link) -> None:
        before = self._owners.get(link)
        if before is not None and before is not self:
            before.leave_link()
        self._owners[link] = self

    def _until_done(self, step: Callable[[], bool]) -> None:
        if not self._connection.retry(lambda: step() or None, lambda _: self._lost()):
            fail("WRITE_CONTENDED", address=self._connection.address)

    def _lost(self) -> None:
        self._connection.drop(self._link)
        self._link = None
        self._watched.clear()

    def _fence(self, stream: bytes) -> StreamFence:
        found = self._fences.get(stream)
        if found is None:
            found = self._fences[stream] = StreamFence(
                stream, self._terms.protocol.writer, self._connection.address, self._entries[stream].done
            )
        return found

    def _update(self, fence: StreamFence, values: Sequence[bytes | None], record: Sequence[bytes | None]) -> None:
        """Apply the values of fence and record. Raises ATTEMPT_REPLACED if this attempt may no longer write."""
        stream, found = fence.stream, BatchRecord.parse(record)
        if self._terms.protocol.is_open(stream, self._terms.event, found, self._entries[stream].record):
            self._opened.add(stream)
        else:
            self._opened.discard(stream)
        fence.update(values)

    def _send(self) -> bool:
        """Send the transaction.

        Returns False if the server refused temporarily; earlier commands may have been executed.
        """
        self._sent = []
        fences = [self._fence(rows.stream) for rows in self._pending]
        link = self._connection.link(self._pending[0].stream)
        self._take(link)
        if link is not self._link:
            self._link = link
            self._watched.clear()
        prefix: tuple[Command, ...] = ()
        if any(fence.key not in self._watched for fence in fences) or self._checks_streams():
            route = self._watch(link, fences)
            if route is None:
                return False
            link, prefix = route
        steps = self._steps(fences)
        self._pending = [step.rows for step in steps]
        if not steps:
            return True
        after_rows = self._after_rows(steps)
        self._read_behind = [] if prefix or self._checks_streams() else [step.fence for step in steps]
        data: list[bytes | memoryview] = [pack(*command) for command in (*prefix, ("MULTI",))]
        self._by_columns = self._columns and all(encoding.are_columns(step.rows) for step in steps)
        for step in steps:
            data += encoding.as_columns(step.rows) if self._by_columns else [step.rows.commands]
        data += [pack(*command) for command in (*after_rows, ("EXEC",), *_watch_and_read(self._read_behind))]
        self._others = after_rows
        self._sent = steps
        self._watched.clear()
        self._link = link
        self._asking = bool(prefix)
        self._token = link.send_raw(*data)
        return True

    def _steps(self, fences: Sequence[StreamFence]) -> list[_Step]:
        """Return the pending rows that are not written yet, according to their fences."""
        steps: list[_Step] = []
        for fence, rows in zip(fences, self._pending, strict=True):
            done = fence.count_written(rows.hashes)
            if done:
                fence.advance(rows.hashes[:done])
            rest = rows.part(done, len(rows)) if done else rows
            if len(rest):
                check_ids(rest, fence.last, self._connection.address)
                steps.append(_Step(fence, rest, fence.next_state(rest.hashes)))
        return steps

    def _after_rows(self, steps: Sequence[_Step]) -> list[Command]:
        """Return the commands after the rows: trimming, and the new states of the fences and records."""
        commands: list[Command] = []
        for step in steps:
            stream = step.fence.stream
            opened = None if stream in self._opened else self._entries[stream].state
            commands += trim_commands(stream, self._terms.options)
            commands += self._terms.protocol.write(stream, step.state, opened)
        return commands

    def _checks_streams(self) -> bool:
        """Return whether the state of the streams must be known before rows are sent."""
        return any(rows.ids is not None for rows in self._pending)

    def _watch(self, link: Link, fences: Sequence[StreamFence]) -> tuple[Link, tuple[Command, ...]] | None:
        """Watch and read the fences, and read the streams' state. Returns None if the server refused temporarily.

        Returns the link for the transaction, and the commands that must precede it. In a cluster a slot may be moving
        from one node to another, key by key. The stream and its fence must be on the same node. Until they are, EXISTS
        of both together is refused (TRYAGAIN).
        """
        # An earlier task may have left watches on this link, which could make EXEC fail.
        commands: list[Command] = [("UNWATCH",)]
        if self._connection.topology.is_cluster:
            commands += [("EXISTS", fence.key, fence.writer.record_key(fence.stream), fence.stream) for fence in fences]
        guards = len(commands)
        own_ids = [rows.stream for rows in self._pending if rows.ids is not None]
        commands += _watch_and_read(fences, *own_ids)
        commands += [("XINFO", "STREAM", fence.stream) for fence in fences]
        prefix: tuple[Command, ...] = ()
        replies = link.pipeline(commands)
        redirected = redirection(replies)
        if redirected is not None:
            link = self._connection.link_for_ask(redirected)
            self._take(link)
            prefix = (("ASKING",),)
            replies = link.pipeline([each for command in commands for each in (*prefix, command)])[1::2]
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ResponseError) and command[0] != "XINFO":
                self._refused(str(reply), command)
                return None
        streams = guards + 1 + 2 * len(fences)
        states, records = replies[guards + 1 : streams : 2], replies[guards + 2 : streams : 2]
        for fence, values, record, info in zip(fences, states, records, replies[streams:], strict=True):
            fence.last = self._last_id(fence, info)
            self._update(fence, values, record)
            self._watched.add(fence.key)
        return link, prefix

    def _last_id(self, fence: StreamFence, info: Any) -> StreamId:
        """Return the stream's last ID, from the reply to XINFO STREAM; 0-0 if it does not exist.

        Raises NOT_A_STREAM.
        """
        if isinstance(info, ResponseError):
            text = str(info)
            if text.startswith("WRONGTYPE"):
                fail("NOT_A_STREAM", stream=shown(fence.stream), address=self._connection.address)
            if "no such key" not in text:
                self._refused(text, ("XINFO",))
                raise LinkError(text)  # temporary: retried as if the link had broken
            return ZERO
        return StreamId.parse(info[info.index(b"last-generated-id") + 1])

    def _refused(self, text: str, command: Command) -> None:
        """Update the routing if the refusal is temporary, otherwise raise SERVER_REFUSED. Nothing was executed."""
        text = reason_of(text)
        if not is_transient(ResponseError(text)):
            raise refused(self._connection.address, command[0], text)
        if text.startswith("MOVED "):
            self._connection.topology.learn_moved(text)
            self._watched.clear()
        elif not text.startswith(("TRYAGAIN", "ASK ")):
            self._lost()

    def _settle(self) -> bool:
        """Return whether the pending rows are in the streams. If not, they are sent again."""
        if not self._sent:
            if not self._send():
                return False
            if not self._sent:
                self._pending = []
                return True
        assert self._link is not None
        link, sent = self._link, self._sent
        self._sent = []
        buffer, stop = link.receive(self._token)
        if self._asking:
            buffer, stop = buffer[len(_ASKING_REPLY) :], stop - len(_ASKING_REPLY)
        if self._by_columns:
            result = transaction_result(buffer, stop, 0, len(sent) + len(self._others))
        else:
            result = transaction_result(buffer, stop, sum(len(step.rows) for step in sent), len(self._others))
        if result.refused:
            self._mark_refused(link, sent, result)
        if not result.done:
            # A conflict: a fence was advanced, by a copy of this task or by this transaction's first attempt.
            # The fences show which of the two it was.
            if self._by_columns and is_refused(result.refusal):
                self._columns = False
            elif result.refusal:
                self._refused(result.refusal, ("XADD",))
            self._watched.clear()
            return False
        for step in sent:
            step.fence.advance(step.rows.hashes)
            step.fence.state = step.state
            self._opened.add(step.fence.stream)
        self._pending = []
        if self._read_behind and not any(isinstance(reply, ResponseError) for reply in result.tail):
            for fence, values, record in zip(self._read_behind, result.tail[1::2], result.tail[2::2], strict=True):
                self._update(fence, values, record)
                self._watched.add(fence.key)
        return True

    def _mark_refused(self, link: Link, sent: Sequence[_Step], result: TransactionResult) -> None:
        """Correct the fences of commands that were refused despite the checks, and raise the error."""
        first = 0
        problem: tuple[int, str] | None = None
        marks: list[Command] = []
        for step in sent:
            replies = 1 if self._by_columns else len(step.rows)
            bad = [at for at in range(replies) if first + at in result.refused]
            if bad:
                row, reason = int(step.rows.rows[bad[0]]), result.refused[first + bad[0]]
                if len(bad) == replies and refusal_of(reason) is not Refusal.ROW:
                    marks.append(step.fence.state.command(step.fence.key))  # resets the fence to its previous value
                else:
                    marks.append(("HSET", step.fence.key, "refused", f"{row} {reason}"))
                problem = problem or (row, reason)
            first += replies
        if problem is None:
            at, reason = next(iter(result.refused.items()))
            raise refused(self._connection.address, self._others[at - first][0], reason)
        link.pipeline(marks)
        raise row_refused(self._connection.address, *problem, "PS.ADD" if self._by_columns else "XADD")

    def wait_for_replicas(self) -> None:
        """Wait until the replicas have the written rows. Raises NOT_REPLICATED if too few have them in time."""
        wait_for_replicas(self._connection, self.fences, self._terms.options, self._link)


def _watch_and_read(fences: Sequence[StreamFence], *more: bytes) -> list[Command]:
    """Return WATCH of the fences, their records and the `more` keys, followed by HMGET of each fence and its record.

    Without fences, return no commands.
    """
    if not fences:
        return []
    records = [fence.writer.record_key(fence.stream) for fence in fences]
    commands: list[Command] = [("WATCH", *(fence.key for fence in fences), *records, *more)]
    for fence, record in zip(fences, records, strict=True):
        commands += [("HMGET", fence.key, *FENCE_FIELDS), ("HMGET", record, *RECORD_FIELDS)]
    return commands


def wait_for_replicas(
    connection: Connection, fences: Sequence[StreamFence], options: WriteOptions, link: Link | None
) -> None:
    """Wait until enough replicas have the rows of these fences, which are all in one slot.

    `link`: the link on which the rows were written. Raises NOT_REPLICATED, WRITE_CONTENDED, and the errors of fences.
    """

    def lost(_: BaseException) -> None:
        nonlocal link
        connection.drop(link)
        link = None

    def attempt() -> bool | None:
        nonlocal link
        if link is None or not connection.keeps(link):
            new = connection.link(fences[0].stream)
            # A new link may reach a server that took over without the writes that the old server acknowledged. The
            # fences show whether it has them.
            replies = new.pipeline([("HMGET", fence.key, *FENCE_FIELDS) for fence in fences])
            for fence, values in zip(fences, replies, strict=True):
                if isinstance(values, ResponseError):
                    connection.learn_or_raise(values, "HMGET", new)
                    return None
                fence.update(values)
            link = new
        # WAIT covers only writes of its own connection. Another write on this connection makes WAIT cover all earlier
        # writes to the server.
        touch: Command = ("HSET", fences[0].key, "chunk", fences[0].state.chunk)
        touched, replicas = link.pipeline([touch, ("WAIT", options.wait_replicas, options.wait_timeout)])
        for reply in (touched, replicas):
            if isinstance(reply, ResponseError):
                connection.learn_or_raise(reply, "WAIT", link)
                return None
        if replicas < options.wait_replicas:
            fail("NOT_REPLICATED", wanted=options.wait_replicas, found=replicas, address=connection.address)
        return True

    if not connection.retry(attempt, lost):
        fail("WRITE_CONTENDED", address=connection.address)


# --- Staged rows

# Publishing a chunk of this size blocks the server's other clients only for milliseconds.
#: Maximum rows of a chunk.
_STAGED_ROWS = 500
#: Maximum bytes of a chunk.
_STAGED_BYTES = 1 << 19

_HEADER = struct.Struct("<QQ")  # number of rows, size of the IDs in bytes


def pack_index(rows: EncodedRows) -> bytes:
    """Return the index that `unpack_rows` needs to restore encoded rows from their bytes."""
    ids = b"" if rows.ids is None else json.dumps([each and each.decode() for each in rows.ids]).encode()
    numbers = b"".join(np.asarray(each, "<i8").tobytes() for each in (rows.bounds, rows.rows, rows.hashes.view("<i8")))
    return b"".join((_HEADER.pack(len(rows), len(ids)), numbers, ids))


def unpack_rows(stream: bytes, commands: bytes, index: bytes) -> EncodedRows:
    """Return encoded rows from their bytes and their index."""
    count, ids_length = _HEADER.unpack_from(index)
    bounds = np.frombuffer(index, "<i8", count + 1, _HEADER.size)
    at = _HEADER.size + bounds.nbytes
    rows = np.frombuffer(index, "<i8", count, at)
    at += rows.nbytes
    hashes = np.frombuffer(index, "<u8", count, at)
    at += hashes.nbytes
    ids = [each and each.encode() for each in json.loads(index[at : at + ids_length])] if ids_length else None
    return EncodedRows(stream, rows, ids, lambda: hashes, encoded=(memoryview(commands), bounds))


class Stager:
    """Stages one task's rows for one stream, except the rows that the fence counts.

    `keeps`: whether rows are stored, not only counted. `whole`: whether each call of `add` stages one chunk. `last`:
    the stream's last ID.
    """

    def __init__(self, fence: StreamFence, keeps: bool, whole: bool, last: StreamId) -> None:
        self._fence = fence
        self._floor = str(last)
        self._keeps = keeps
        self._whole = whole
        self._chunks = 0
        self._differs = False
        self.key = fence.writer.staged_key(fence.stream, uuid.uuid4().hex)

    def add(self, rows: EncodedRows) -> list[Command]:
        """Return the commands that stage the rows, except the rows that the fence counts."""
        fence, done = self._fence, len(rows)
        try:
            done = fence.count_written(rows.hashes)
        except PystreamsError:  # other rows than the fence counts; the driver checks whether the stream has them
            self._differs = True
        if self._differs or not self._keeps:
            done = len(rows)
        if done:
            fence.advance(rows.hashes[:done])
        commands: list[Command] = []
        for part in self._chunks_of(rows.part(done, len(rows)) if done else rows):
            fence.advance(part.hashes)
            state = ChunkState(fence.digest, part.ids is None and _are_short(part))
            commands += staged_chunk(self.key, self._chunks, bytes(part.commands), state, pack_index(part))
            self._chunks += 1
        return commands

    def _chunks_of(self, rows: EncodedRows) -> Iterator[EncodedRows]:
        if self._whole and len(rows):
            yield rows
            return
        first = 0
        while first < len(rows):
            most = int(rows.bounds[first]) + _STAGED_BYTES
            end = int(np.searchsorted(rows.bounds, most, "right")) - 1
            end = min(max(end, first + 1), first + _STAGED_ROWS, len(rows))
            yield rows.part(first, end)
            first = end

    @property
    def is_empty(self) -> bool:
        """Whether nothing was staged."""
        return not self._chunks

    def finish(self) -> TaskRows:
        """Return the task's rows for the stream: their digest, and the key of the staged rows."""
        fence = self._fence
        base = fence.state.row_digest
        differs = self._differs or base.rows > fence.rows
        partition, chunks = fence.writer.partition, self._chunks
        return TaskRows(fence.stream, partition, fence.digest, base, self.key, chunks, differs, self._floor)


def _are_short(rows: EncodedRows) -> bool:
    """Return whether all rows have fewer than a thousand words: Lua limits the number of arguments."""
    # A row begins with its number of words, as in *13\r\n. The fifth byte is a digit if there are four digits or more.
    fifth = np.frombuffer(rows.commands, np.uint8)[np.asarray(rows.bounds[:-1]) + 4]
    return not bool(np.any((fifth >= ord("0")) & (fifth <= ord("9"))))


# --- One task


class ExactlyOnceSender:
    """Sends a task's rows.

    `lasting`: whether the write may be repeated under its name. Raises the errors of `SlotTransaction` and
    `StreamFence`.
    """

    def __init__(self, connection: Connection, writer: WriterId, options: WriteOptions, lasting: bool) -> None:
        self._connection = connection
        self._stagers: dict[bytes, Stager] = {}
        self._entries: dict[bytes, Entry] = {}
        self._protocol = Protocol.of(writer, options, lasting)
        self._terms = Terms(self._protocol, options)
        self._owners: dict[Link, SlotTransaction] = {}
        self._transactions: dict[int, SlotTransaction] = {}

    def submit(self, chunk: Sequence[EncodedRows]) -> None:
        """Send a chunk.

        When this method returns, earlier rows of the same slots are in the streams, but this chunk may not be.
        """
        new = [rows.stream for rows in chunk if rows.stream not in self._entries]
        if new:
            self._enter(new)
        by_slot: dict[int, list[EncodedRows]] = {}
        staging: list[Command] = []
        for rows in chunk:
            stager = self._stagers.get(rows.stream)
            if stager is not None:
                staging += self._stage(stager, rows)
                continue
            slot = slot_of(rows.stream) if self._connection.topology.is_cluster else 0
            by_slot.setdefault(slot, []).append(rows)
        if staging:
            self._connection.commands(staging)
        for slot, together in by_slot.items():
            transaction = self._transactions.get(slot)
            if transaction is None:
                transaction = SlotTransaction(self._connection, self._terms, self._owners)
                self._transactions[slot] = transaction
            for rows in together:
                transaction.enter(rows.stream, self._entries[rows.stream])
            for run in runs(together):
                transaction.finish()
                transaction.send(run)

    def _stage(self, stager: Stager, rows: EncodedRows) -> list[Command]:
        is_first = stager.is_empty
        commands = stager.add(rows)
        return [*self._protocol.stage(stager.key), *commands] if commands and is_first else commands

    def settle(self) -> None:
        """Wait until all submitted rows are in the streams."""
        for transaction in self._transactions.values():
            transaction.finish()

    def finish(self) -> list[TaskRows]:
        """End the task: wait for all rows and for the replicas.

        Returns the rows that the task has written or staged.
        """
        self.settle()
        fences = [fence for transaction in self._transactions.values() for fence in transaction.fences]
        for fence in fences:
            fence.finish()
        if self._terms.options.wait_replicas:
            for transaction in self._transactions.values():
                transaction.wait_for_replicas()
        partition = self._protocol.writer.partition
        written = [TaskRows(fence.stream, partition, fence.digest, fence.digest) for fence in fences]
        return [*written, *(stager.finish() for stager in self._stagers.values())]

    def _enter(self, streams: Sequence[bytes]) -> None:
        """Register these streams, and decide for each stream whether its rows are written or staged."""
        writer, commands = self._protocol.writer, list[Command]()
        for stream in streams:
            commands += [
                ("HMGET", writer.record_key(stream), *RECORD_FIELDS),
                ("HMGET", writer.fence_key(stream), *FENCE_FIELDS),
                ("XINFO", "STREAM", stream),
            ]
        reads = len(commands)
        writes = self._terms.options.mode != "staged"
        if writes:
            commands += self._protocol.enter(streams)
        replies = self._connection.pipeline(commands)
        if writes:
            self._connection.check(commands[reads:], replies[reads:])
            writes = self._protocol.may_write(replies[-1] if len(replies) > reads else None)
        fences: dict[bytes, list[bytes | None]] = {}
        for at, stream in enumerate(streams):
            values, fence, info = replies[3 * at : 3 * at + 3]
            self._connection.check(commands[3 * at : 3 * at + 2], (values, fence))
            entry = Entry(BatchRecord.parse(values), stream_state(self._connection, info))
            self._entries[stream] = entry
            self._protocol.check_order(stream, entry.record)
            if not (writes and allows(entry.record, writer, Event.WRITE)):
                fences[stream] = fence
        self._stage_at(fences)

    def _stage_at(self, fences: Mapping[bytes, list[bytes | None]]) -> None:
        """Stage the rows of these streams. A fence is taken into account if its stream is still the same."""
        writer = self._protocol.writer
        written: dict[bytes, tuple[BatchRecord, StreamState, int]] = {}
        for stream, values in fences.items():
            entry = self._entries[stream]
            if entry.record.batch == writer.batch:
                written[stream] = entry.record, entry.state, FenceState.parse(values).rows_in(writer.batch)
        deleted = gone_streams(self._connection, written, writer.attempt)
        for stream, values in fences.items():
            entry = self._entries[stream]
            found = StreamFence(stream, writer, self._connection.address)
            if stream not in deleted:
                found.update(values)
            is_there = stream in written and entry.record.is_committed and stream not in deleted
            is_whole = self._terms.options.mode == "atomic"
            self._stagers[stream] = Stager(found, not is_there, is_whole, entry.state.last)
