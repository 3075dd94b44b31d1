"""Driver side of a shared group: planning of numbered batches, for which the tasks read the group's entries.

The driver decides when to start a batch, how much each partition may read, and which entries are acknowledged. The task
side is `spark_streams.read.shared.task`, which also has the rules of both sides.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_streams.config.positions import Position
from spark_streams.config.read import LimitOptions, ReadOptions
from spark_streams.errors import PystreamsError, error, fail, first_of
from spark_streams.read.query import loss, planning
from spark_streams.read.query.lease import Lease, lease_name
from spark_streams.read.query.loss import Baseline, Loss
from spark_streams.read.query.offsets import (
    Finish,
    Offsets,
    SharedBatch,
    Source,
    check_identity,
    source_of,
    source_without_begin,
)
from spark_streams.read.query.planning import States
from spark_streams.read.query.selection import Selection, Watch, check_exist, fails_missing
from spark_streams.read.shared.task import (
    DONE,
    SharedPartition,
    SharedTask,
    batch_of,
    ledger_key,
    prefix_of,
)
from streamclient.config.address import Address
from streamclient.connection import Command, Connection
from streamclient.pool import borrow
from streamclient.streams.groups import removed
from streamclient.streams.states import GroupState, Range, StreamState, last_id_of
from streamclient.streams.stream_server import StreamServer, open_server
from streamwire.stream_id import LAST, ZERO, StreamId

_log = logging.getLogger("spark_streams")
_LATEST = Position("latest")
_MOST_EXAMINED = 10_000  # maximum number of pending entries of a consumer that are examined for claims
_ACK_IDS = 1000  # IDs in one XACK
_LEDGER_MS = 30 * 86_400_000  # time for which a ledger is kept after the stream's last batch


class SharedSource:
    """One query's use of the groups of its streams. Its methods answer Spark's calls in terms of `Offsets`."""

    # A single class, because Spark's calls of one query share what the calls before them have found.

    def __init__(self, options: ReadOptions, address: Address) -> None:
        self._options = options
        self._address = address
        self._selection = Selection(options)
        self._streams: Sequence[str] = ()  # the streams that were found by the last call
        self._watch = Watch(options.idle_wait, options.group)
        self._target: dict[str, StreamId] | None = None  # last IDs at the start of Trigger.AvailableNow
        self._latest: Offsets | None = None
        self._finished = -1  # the last acknowledged batch
        self._run = secrets.token_hex(8)
        self.lease = Lease(options, address)
        self._base: SharedBatch | None = None  # batch after which this run numbers its batches; None until known
        self._checked = False  # whether the checkpoint is known to be this query's
        self._groups: set[str] = set()  # streams that had the group
        self._known: dict[str, Baseline] = {}  # baselines for detecting losses, from the last states of the groups
        #: Position and number of pending entries of the groups from which the last planned batch was to read.
        self._asked: dict[str, tuple[StreamId, int]] = {}
        self._planned_at: tuple[int, float] | None = None  # number of the last planned batch, and time in seconds
        self._warned = False  # whether a batch that read nothing was reported
        self._lost: dict[str, int] = {}  # number of entries lost since the last planned batch, by stream
        #: Streams with the prefixes of other running queries, from the last look at the consumers.
        self._living: dict[str, frozenset[bytes]] = {}
        self._gone: set[str] = set()  # deleted streams that may have ledgers
        #: Number of the last planned batch.
        self._noted = -1

    @property
    def _group(self) -> str:
        return self._options.group or ""

    @property
    def latest(self) -> Offsets | None:
        """The last known end of the streams; None before the first batch."""
        return self._latest

    def initial(self, end: Offsets | None = None, *, is_new: bool = False) -> Offsets:
        """Create missing groups, and return the start, which counts from the last batch of the query's earlier runs.

        `end`: the end of the query's first batch, if that offset contains the groups' starts. `is_new`: whether no
        earlier run has created the groups.
        """
        if is_new:
            self.lease.mark_new()
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states.of(self._selection.streams(server), self._group)
            if fails_missing(self._options, available_now=self._target is not None):
                check_exist(self._options, states, self._address)
            starts = {**self._starts(states), **((end and end.starts) or {})}
            missing = {stream: starts[stream] for stream, state in states.items() if state is None or not state.group}
            self._groups.update(missing)
            server.groups.create({stream: (start, None) for stream, start in missing.items()}, self._group)
            for stream, start in missing.items():
                self._known[stream] = _unread_from(start, states[stream])
            if end is not None and end.shared is not None:
                since = end.shared.since
                return Offsets({}, shared=SharedBatch(since, since), source=end.source)
            since = self._last_batch(connection, server, list(states))
            return Offsets({}, shared=SharedBatch(since, since), source=source_of(self._options, self._address))

    def _starts(self, states: Mapping[str, StreamState | None]) -> dict[str, StreamId]:
        """Return the positions at which a new query's groups begin in the streams that do not have the group."""
        starts: dict[str, StreamId] = {}
        for stream, state in states.items():
            if state is None or state.group is None:
                position = self._options.starting.get(stream, _LATEST)
                start = last_id_of(state) if position.kind in ("latest", "group") else ZERO
                starts[stream] = start if position.after is None else position.after
        return starts

    def everything(self) -> Offsets:
        """Return a batch of all existing entries, without knowing the previous batch. Changes nothing on a server.

        The last batch may exist only in Spark's log. Batch numbers must be unique, so this batch's number is the time
        in milliseconds. If the clock goes back, the tasks may take the batch for a finished one: its entries are then
        left for the next batch.
        """
        with borrow(self._address) as connection:
            server = open_server(connection)
            streams = self._selection.streams(server)
            states = server.states.of(streams, self._group)
            if fails_missing(self._options, available_now=False):
                check_exist(self._options, states, self._address)
            starts = self._starts(states)
            self._check_losses(server, states)
            since = self._last_batch(connection, server, streams)
            unread = {stream: _most_unread(state, starts.get(stream)) for stream, state in states.items()}
            claims = self._claimable(connection, server, states, SharedBatch(since, since))
            source = source_without_begin(self._options, self._address)
            number = max(since + 2, time.time_ns() // 1_000_000)
            self._noted = number
            for stream, state in states.items():
                if stream in starts:
                    self._known[stream] = _unread_from(starts[stream], state)
                elif state is not None:
                    self._known[stream] = loss.group_baseline(state)
        limits, cores = planning.unlimited(self._options), os.cpu_count() or 1
        return plan_shared(number, since, unread, claims, limits, source=source, starts=starts, cores=cores)

    def _last_batch(self, connection: Connection, server: StreamServer, streams: Sequence[str]) -> int:
        """Return the largest batch number in the streams' ledgers and among the consumers of their groups."""
        done = connection.commands([("HGET", self._ledger_key(stream), DONE) for stream in streams])
        consumers = itertools.chain.from_iterable(server.groups.consumers(streams, self._group).values())
        batches = (batch_of(name, self._options.consumer) for name, _ in consumers)
        return max(itertools.chain(map(int, filter(None, done)), filter(None, batches)), default=0)

    def _ledger_key(self, stream: str) -> bytes:
        return ledger_key(stream, self._group, self._options.consumer)

    def prepare_available_now(self) -> None:
        """Record the end of a query that stops after reading all existing entries."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states.of(self._selection.streams(server), self._group)
        self._target = {stream: last_id_of(state) for stream, state in states.items()}

    def next(self, begin: Offsets, *, unlimited: bool, may: Finish) -> Offsets:
        """Return the next batch after `begin`, if the group has entries for it; otherwise `begin` itself.

        Finished entries are acknowledged and trimmed whatever they `may` be in a range: a restart continues at the
        group's position.
        """
        del may
        with borrow(self._address) as connection:
            server = open_server(connection)
            streams = self._found(server)
            last = self._shared(begin, streams)
            self.lease.renew(server, streams)
            self._finish(connection, server, last)
            self._drop_ledgers(connection)
            last = self._counted_on(connection, server, streams, last)
            due = self._watch.due(server, begin, streams, waits=self._target is None)
            if not due and streams:
                return begin
            states = server.states.of(due, self._group)
            lag, claims = self._facts(connection, server, begin, last, states)
            end = plan_shared(
                last.number + 1,
                last.since,
                lag,
                claims,
                planning.unlimited(self._options) if unlimited else self._options,
                source=source_of(self._options, self._address, begin),
                lost={**begin.lost, **{stream: begin.lost.get(stream, 0) + n for stream, n in self._lost.items()}},
                cores=os.cpu_count() or 1,
            )
            self._noted = last.number + 1
            self._watch.settle(begin, self._quiet(states, lag, claims))
            if end.shared is None or end.shared.is_empty:
                return begin
            self.lease.hold(server, begin.source.query, end.shared.reads)
            self._watch.settle(end, {})
            self._asked = {stream: _progress(states[stream]) for stream in end.shared.reads}
            self._planned_at = end.shared.number, time.monotonic()
            self._lost = {}
            return end

    def _found(self, server: StreamServer) -> Sequence[str]:
        """Return the query's current streams. A deleted stream that exists again counts as a new one."""
        streams = self._selection.streams(server)
        if streams is not self._streams:
            self._streams = streams
            for stream in self._groups - set(streams):
                self._groups.remove(stream)
                self._known.pop(stream, None)
                self._gone.add(stream)
        return streams

    def _drop_ledgers(self, connection: Connection) -> None:
        """Delete the ledgers of deleted streams, so that their number does not grow. If refused, they expire."""
        if self._gone:
            connection.pipeline([("DEL", self._ledger_key(stream)) for stream in sorted(self._gone)])
            self._gone.clear()

    def _facts(
        self, connection: Connection, server: StreamServer, begin: Offsets, last: SharedBatch, states: States
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return the numbers of entries that the group has yet to read, and of pending entries to claim. Creates
        missing groups, and reports losses.
        """
        before = {} if self._latest is None else self._latest.streams
        self._latest = Offsets({**before, **{stream: last_id_of(state) for stream, state in states.items()}})
        lag = self._count_unread(server, begin, states)
        claims = self._claimable(connection, server, states, last)
        unread = {stream for stream, state in states.items() if self._asked.get(stream) == _progress(state)}
        if unread and not self._warned:
            self._warned = True
            _log.warning(
                "Batch %d is finished, but no task has read its entries of %s. They stay in the group %s. Does the "
                "function of foreachBatch read its DataFrame?",
                last.number,
                ", ".join(sorted(unread)),
                self._group,
            )
        if self._target is not None:  # a run that ends after the existing entries does not offer them again
            lag |= dict.fromkeys(unread, 0)
            claims = {stream: count for stream, count in claims.items() if stream not in unread}
        for stream, state in states.items():
            if state is not None and state.group is not None:
                self._known[stream] = loss.group_baseline(state, self._known.get(stream))
        return lag, claims

    def _quiet(
        self, states: States, lag: Mapping[str, int], claims: Mapping[str, int]
    ) -> dict[str, StreamState | None]:
        """Return the streams that have no entries to read or claim until the stream or its group changes."""
        waits = self._options.claim_idle is not None  # pending entries may reach the idle time at any moment
        return {
            stream: state
            for stream, state in states.items()
            if state is not None
            and state.group is not None
            and not (lag[stream] or stream in claims or (state.group.pending and waits))
        }

    def _counted_on(
        self, connection: Connection, server: StreamServer, streams: Sequence[str], last: SharedBatch
    ) -> SharedBatch:
        """Return the batch after which this run numbers its batches: `last`, or a later batch of an earlier run.

        The checkpoint may not contain such a later batch.

        With asynchronous progress tracking, or with an old copy of a checkpoint, the group has seen batches that the
        checkpoint does not contain. The pending entries of these batches may never have been output, so they are
        claimed, as by a new query.
        """
        if self._base is None:
            seen = self._last_batch(connection, server, streams)
            self._base = last if seen <= last.number else SharedBatch(seen, seen)
            if seen > last.number:
                _log.warning(
                    "The checkpoint is at batch %d, but the group %s is at batch %d.", last.number, self._group, seen
                )
        return max(self._base, last, key=lambda batch: batch.number)

    def _shared(self, offset: Offsets, streams: Sequence[str] | None = None) -> SharedBatch:
        """Return the batch of an offset. Raises the errors of `check_identity` if it belongs to another query."""
        if not self._checked:
            check_identity(self._options, self._address, offset, streams)
            self._checked = streams is not None
        if offset.shared is None:
            fail("OFFSET_MALFORMED", offset=offset.to_json())
        return offset.shared

    def _count_unread(self, server: StreamServer, begin: Offsets, states: States) -> dict[str, int]:
        """Return the number of entries that the group has yet to read in each stream. Creates missing groups, and
        reports losses.
        """
        present = self._ensure_groups(server, begin, states)
        self._check_losses(server, states)
        existing = {stream: state for stream, state in states.items() if state is not None and stream in present}
        return dict.fromkeys(states, 0) | self._lags(server, existing)

    def _ensure_groups(self, server: StreamServer, begin: Offsets, states: States) -> set[str]:
        """Create missing groups.

        Returns the streams that have the group now. Raises GROUP_LOST if a stream had the group before and losses are
        errors.
        """
        present: set[str] = set()
        lost: dict[str, PystreamsError] = {}
        for stream, state in states.items():
            had_group = stream in self._groups
            self._groups.discard(stream)
            if state is not None and state.group is not None:
                self._groups.add(stream)
                present.add(stream)
                continue
            if state is None and self._options.pattern is not None:
                continue  # the stream was deleted after the pattern was resolved
            was_read = self._finished > 0 and stream in begin.source.streams
            if had_group or was_read:
                if self._options.fails:
                    self._groups.add(stream)
                    lost[stream] = error("GROUP_LOST", stream=stream, address=self._address, group=self._group)
                    continue
                _log.warning("The group %s of the stream %s was lost; it is created again.", self._group, stream)
            present.add(stream)
            self._known[stream] = _unread_from(ZERO, state)
        missing = [stream for stream in states if stream in present and stream not in self._groups]
        server.groups.create(dict.fromkeys(missing, (ZERO, None)), self._group)
        if lost:
            raise first_of(lost)
        return present

    def _check_losses(self, server: StreamServer, states: States) -> None:
        """Report entries that were removed before the group read them."""
        suspects = [
            stream
            for stream, state in states.items()
            if state is not None and loss.find_group_loss(state, self._known.get(stream)) is not None
        ]
        losses: dict[str, Loss] = {}
        # The states of stream and group may be from different moments. Only states from the same moment prove a loss.
        for stream, state in server.states.consistent(suspects, self._group).items():
            found = None if state is None else loss.find_group_loss(state, self._known.get(stream))
            if found is not None:
                losses[stream] = found
        loss.raise_or_warn(losses, self._address, fails=self._options.fails)
        for stream, found in losses.items():
            self._count_lost(stream, found.at_least)

    def _count_lost(self, stream: str, entries: int) -> None:
        self._lost[stream] = self._lost.get(stream, 0) + entries

    def _lags(self, server: StreamServer, states: Mapping[str, StreamState]) -> dict[str, int]:
        """Return the number of entries that the group has yet to read; an estimate if the server does not know it.

        With Trigger.AvailableNow only entries up to the target count, unless counting them would require reading.
        """
        lags = dict.fromkeys(states, 0)
        unknown: list[tuple[str, StreamId, StreamId]] = []
        for stream, state in states.items():
            position = state.group.last_delivered_id if state.group is not None else ZERO
            end = state.last_id if self._target is None else min(state.last_id, self._target.get(stream, ZERO))
            lag = None if state.group is None else state.group.lag
            if position >= end:
                continue
            if lag is not None and (end == state.last_id or not server.entries.counts_cheaply):
                lags[stream] = lag
            else:
                unknown.append((stream, position, end))
        if server.entries.counts_cheaply:
            lags.update(zip((stream for stream, *_ in unknown), server.entries.counts(unknown), strict=True))
        else:
            firsts = server.entries.nths([(stream, position, 1, LAST) for stream, position, _ in unknown])
            for (stream, position, _), (_, found) in zip(unknown, firsts, strict=True):
                lags[stream] = states[stream].backlog(position)[0] if found else 0
        return lags

    def _claimable(
        self, connection: Connection, server: StreamServer, states: States, last: SharedBatch
    ) -> dict[str, int]:
        """Return the number of claimable pending entries of other consumers, by stream.

        Streams without such entries are absent. At most 10,000 entries of each consumer are counted. Entries that no
        longer exist are reported, as an error if losses are errors; otherwise they are acknowledged.
        """
        idle = self._options.claim_idle
        streams = [stream for stream, state in states.items() if state and state.group and state.group.pending]
        requested: list[tuple[str, Command]] = []
        listed = server.groups.consumers(streams, self._group)
        self._living = {} if idle is None else self._running(server, listed)
        for stream, consumers in listed.items():
            for name, pending in consumers:
                batch = batch_of(name, self._options.consumer)
                if not pending or (batch is not None and batch > last.since) or (batch is None and idle is None):
                    continue
                if batch is None and prefix_of(name) in self._living.get(stream, ()):
                    continue
                condition: Command = () if batch is not None or idle is None else ("IDLE", idle)
                requested.append(
                    (stream, ("XPENDING", stream, self._group, *condition, "-", "+", _MOST_EXAMINED, name))
                )
        found: dict[str, list[bytes]] = {}
        for (stream, _), rows in zip(
            requested, connection.commands([command for _, command in requested]), strict=True
        ):
            if rows:
                found.setdefault(stream, []).extend(row[0] for row in rows)
        lost = removed(connection, [(stream, self._group, ids, states[stream]) for stream, ids in found.items()])
        gone = {stream: ids for stream, ids in zip(found, lost, strict=True) if ids}
        losses = {stream: loss.of_entries(ids) for stream, ids in gone.items()}
        loss.raise_or_warn(losses, self._address, fails=self._options.fails)
        for stream, ids in gone.items():
            self._count_lost(stream, len(ids))
            connection.commands(
                [("XACK", stream, self._group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
            )
        left = {stream: len(ids) - len(gone.get(stream, ())) for stream, ids in found.items()}
        return {stream: count for stream, count in left.items() if count}

    def _running(
        self, server: StreamServer, consumers: Mapping[str, Sequence[tuple[bytes, int]]]
    ) -> dict[str, frozenset[bytes]]:
        """Return for each stream the prefixes of consumers whose query holds its lease.

        Such a query is running, however long its batch takes, so its entries are not claimed. If it ends, it releases
        the lease, or the lease expires.
        """
        names: dict[bytes, list[str]] = {}
        for stream, listed in consumers.items():
            for prefix in {prefix_of(name) for name, pending in listed if pending} - {None}:
                names.setdefault(prefix or b"", []).append(stream)
        found: dict[str, frozenset[bytes]] = {}
        for prefix, streams in names.items():
            other = replace(self._options, consumer=prefix.decode("utf-8", "replace"))
            for stream in server.leases.held(streams, lease_name(other, shared=True)):
                found[stream] = found.get(stream, frozenset()) | {prefix}
        return found

    def partitions(self, begin: Offsets, end: Offsets) -> list[SharedPartition]:
        """Return the partitions of the batch that `end` describes.

        Each partition has one or more of the batch's consumers.
        """
        del begin
        batch = self._shared(end, self._options.streams or None)
        options = self._options
        with borrow(self._address) as connection:
            server = open_server(connection)
            self.lease.hold(server, end.source.query, batch.reads)
            if end.starts is not None and not options.fails:  # planned without checking for lost groups
                states = server.states.of([*batch.reads], self._group)
                lost = {stream: (ZERO, None) for stream, state in states.items() if state and not state.group}
                for stream in sorted(server.groups.create(lost, self._group)):
                    _log.warning("The group %s of the stream %s was lost; it is created again.", self._group, stream)
        planned: list[SharedTask] = []
        known = self._known if self._noted == batch.number else {}
        for stream, counts in sorted(batch.reads.items()):
            for index, count in enumerate(counts):
                task = SharedTask(
                    stream,
                    self._group,
                    options.consumer,
                    batch.number,
                    index,
                    batch.since,
                    reads=count,
                    claims=batch.claims.get(stream, 0) if index == 0 else 0,
                    claim_idle=options.claim_idle,
                    max_deliveries=options.max_deliveries,
                    dead_letters=options.dead_letters,
                    page_size=options.page_size,
                    run=self._run,
                    fails=options.fails,
                    known=known.get(stream, loss.UNKNOWN),
                    living=self._living.get(stream, frozenset()),
                )
                planned.append(task)
        return [SharedPartition(self._address, tasks) for tasks in planning.by_task(planned, end.tasks)]

    def commit(self, end: Offsets) -> None:
        """Acknowledge and trim everything up to the batch of `end`, which Spark has finished."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            self.lease.renew(server)
            self._finish(connection, server, self._shared(end))

    def _finish(self, connection: Connection, server: StreamServer, finished: SharedBatch) -> None:
        """Acknowledge the finished batches: delete their consumers, update the ledgers, and trim if the query trims."""
        if self._finished >= finished.number:
            return
        self._check_duration(finished.number)
        everything = sorted({*finished.reads, *self._selection.streams(server)})
        # An earlier run may have left consumers in any stream. If the previous batch was finished by this run, only the
        # streams of the finished batch have consumers.
        streams = sorted(finished.reads) if self._finished == finished.number - 1 >= 0 else everything
        if finished.number > finished.since:
            obsolete: list[tuple[str, bytes]] = []
            for stream, consumers in server.groups.consumers(streams, self._group).items():
                for name, pending in consumers:
                    batch = batch_of(name, self._options.consumer)
                    if batch is None or batch > finished.number or (batch <= finished.since and pending):
                        continue
                    obsolete.append((stream, name))
            # Deleting a consumer acknowledges its pending entries.
            server.groups.delete_consumers(obsolete, self._group)
            self._write_done(connection, streams, finished.number)
        if self._options.trims:
            unfinished = server.groups.first_unfinished_ids(everything)
            server.streams.trim_before({stream: before for stream, before in unfinished.items() if before is not None})
        self._finished = finished.number

    def _check_duration(self, number: int) -> None:
        """Log a warning if the batch took so long that others may have claimed its entries meanwhile."""
        idle = self._options.claim_idle
        if self._planned_at is None or idle is None or self._planned_at[0] != number:
            return
        milliseconds = round((time.monotonic() - self._planned_at[1]) * 1000)
        if milliseconds > idle:
            _log.warning(
                "Batch %d took %d ms, longer than claimIdleMs (%d ms). Other programs that claim entries of the group "
                "%s after this time may have processed its entries too.",
                number,
                milliseconds,
                idle,
                self._group,
            )

    def _write_done(self, connection: Connection, streams: Sequence[str], batch: int) -> None:
        """Record in the ledgers that a batch is finished, and remove the lines of this and older batches."""
        keys = [self._ledger_key(stream) for stream in streams]
        # The finished batch is written first. Otherwise a late task could find that its line is missing and its batch
        # unfinished, and read new entries.
        commands: list[Command] = [("HSET", key, DONE, batch) for key in keys]
        for key, lines in zip(keys, connection.commands([("HKEYS", key) for key in keys]), strict=True):
            old = [line for line in lines if b"-" in line and int(line.split(b"-")[0]) <= batch]
            if old:
                commands.append(("HDEL", key, *old))
        connection.commands(commands)
        connection.pipeline(
            [("PEXPIRE", key, _LEDGER_MS) for key in keys]
        )  # without the permission, they do not expire

    def stop(self) -> None:
        """End the query. Entries of unfinished batches stay pending for its consumers."""
        self.lease.give_up()


def _progress(state: StreamState | None) -> tuple[StreamId, int]:
    """Return the group's position and number of pending entries, which every read changes."""
    group = None if state is None else state.group
    return (ZERO, 0) if group is None else (group.last_delivered_id, group.pending)


def _most_unread(state: StreamState | None, start: StreamId | None) -> int:
    """Return the largest possible number of entries that a group has yet to read. A missing group begins at `start`."""
    if state is None:
        return 0
    position = start if start is not None or state.group is None else state.group.last_delivered_id
    if position is not None and position >= state.last_id:
        return 0
    if state.group is not None and state.group.lag is not None:
        return state.group.lag
    return state.length


def _unread_from(start: StreamId, state: StreamState | None) -> Baseline:
    """Return the baseline of losses in a stream whose group was just created at `start`."""
    if state is None:
        return Baseline(start, 0)
    return loss.group_baseline(replace(state, group=GroupState(start, None, 0)))


_MOST = 100_000  # default maximum number of entries per task, which arrive in one reply


def plan_shared(
    number: int,
    since: int,
    lag: Mapping[str, int],
    claims: Mapping[str, int],
    limits: LimitOptions,
    *,
    source: Source,
    starts: Mapping[str, StreamId] | None = None,
    lost: Mapping[str, int] | None = None,
    cores: int = 1,
) -> Offsets:
    """Return the batch with the number `number`. It is empty if the group has no entries for it.

    `since`: number of the last batch of the query's earlier runs. `lag`: number of entries that the group has yet to
    read in each stream, or an estimate. `claims`: number of entries pending for other consumers that may be claimed.
    `starts`: start of a new query, if the batch is planned without knowing the previous one (Spark 4.0 and 4.1).
    `lost`: number of entries that the query has noticed as lost so far. `cores`: cores for which tasks are planned.
    """
    if limits.max_entries is not None:
        claims = planning.shares(limits.max_entries, claims, number)
        left = limits.max_entries - sum(claims.values())
        lag = planning.shares(left, lag, number) if left else {}
    most = limits.max_per_partition or _MOST
    # A batch without a known start has all existing entries, in as many parts as necessary.
    wanted = planning.parts(lag, limits.min_partitions, limits.max_per_partition if starts is None else most)
    reads = {stream: _equal_parts(count, wanted.get(stream, 1), most) for stream, count in lag.items() if count}
    reads = {**dict.fromkeys(claims, (0,)), **reads}
    consumers = [
        Range(stream, ZERO, LAST, index, count + (0 if index else claims.get(stream, 0)))
        for stream, counts in sorted(reads.items())
        for index, count in enumerate(counts)
    ]
    tasks = planning.tasks(consumers, limits, cores)
    batch = SharedBatch(number, since, reads, claims)
    return Offsets({}, tasks=tasks, lost=lost or {}, shared=batch, source=source, starts=starts)


def _equal_parts(count: int, parts: int, most: int) -> tuple[int, ...]:
    """Return the number of entries of each part: numbers that differ by at most 1, none above `most`."""
    parts = max(1, min(parts, count))
    count = min(count, parts * most)
    return tuple(count * (part + 1) // parts - count * part // parts for part in range(parts))
