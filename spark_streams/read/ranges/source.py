"""Consuming by ranges: the driver side of a query that owns its positions and, optionally, a consumer group.

To answer Spark's calls, this module collects the facts of a batch, plans it (`plan`), and carries the plan out. The
rows of a batch follow from its two offsets alone; the group (`owned_group`) never determines them.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.read.query import planning
from spark_streams.read.query.lease import Lease
from spark_streams.read.query.loss import Known
from spark_streams.read.query.offsets import (
    Finish,
    Offsets,
    check_identity,
    query_of,
    same_streams,
    source_of,
    source_without_begin,
)
from spark_streams.read.query.planning import States, expect
from spark_streams.read.query.selection import Selection, Watch, check_exist, fails_missing
from spark_streams.read.ranges.continuity import Continuity, baselines_of
from spark_streams.read.ranges.owned_group import OwnedGroup
from spark_streams.read.ranges.plan import (
    BatchPlan,
    Facts,
    first_offset,
    plan,
    plan_without_begin,
    tasks_between,
    wholes_between,
)
from spark_streams.read.ranges.task import RangePartition, known_of
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.pool import borrow
from streamclient.streams.counting import Entries
from streamclient.streams.states import Range, StreamState, last_id_of
from streamclient.streams.stream_server import StreamServer, open_server
from streamwire.stream_id import ZERO, StreamId

_log = logging.getLogger("spark_streams")
_LATEST = Position("latest")
_FEW = 8  # up to this number of streams, requesting all states costs no more than asking which streams have changed


class RangeSource:
    """Driver side of a query that reads ranges. Its methods answer Spark's calls in terms of `Offsets`.

    `clock` returns seconds.
    """

    def __init__(self, options: ReadOptions, address: Address, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._address = address
        self._clock = clock
        self._selection = Selection(options)
        self._watch = Watch(options.idle_wait)
        self._group = OwnedGroup(options, address)
        self._delivered: Offsets | None = None  # end of the last batch that this run delivered to the group
        self.lease = Lease(options, address)
        self._continuity = Continuity(options, address, self._group)
        # Targets of Trigger.AvailableNow: last ID and number of entries added, by stream.
        self._targets: dict[str, tuple[StreamId, int | None]] | None = None
        self._latest: Offsets | None = None
        #: For a new query without a group: its start in each stream that it reads from the stream's end.
        self._latest_starts: dict[str, StreamId] = {}
        self._checked = False  # whether the checkpoint is known to be this query's
        self._planned_at: float | None = None
        self._rotation = 1

    @property
    def latest(self) -> Offsets | None:
        """The last known end of the streams; None before the first batch."""
        return self._latest

    def initial(self, end: Offsets | None = None, *, is_new: bool = False) -> Offsets:
        """Return the start of a new query.

        With a group, the start is stored in the group. `end`: the end of the first batch, if that offset contains the
        start. `is_new`: whether no earlier run has created the group.
        """
        starts = None if end is None else end.starts
        if is_new:
            self.lease.mark_new()
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states.of(self._streams(server), self._options.group)
            # Spark calls this for restarts too. Only `next` can distinguish a deleted stream from a stream that never
            # existed.
            is_missing = self._fails_missing and None in states.values()
            begins = self._new_starts(server, states, starts or {}, changes=not is_missing)
            baselines = baselines_of(server, begins, states)
        for stream in (stream for stream, state in states.items() if state is None and not is_missing):
            _log.warning("The stream %s does not exist yet. The query waits for it.", stream)
        self._continuity.see(states)
        source = end.source if end is not None and starts else source_of(self._options, self._address)
        return first_offset(baselines, states, source)

    def everything(self) -> Offsets:
        """Return the end of a batch whose start is unknown: the current end of the streams.

        Changes nothing on a server.
        """
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states.of(self._streams(server), self._options.group)
            if fails_missing(self._options, available_now=False):
                check_exist(self._options, states, self._address)
            starts = self._new_starts(server, states, {}, changes=False)
            source = source_without_begin(self._options, self._address)
            end = plan_without_begin(starts, states, source, self._options, server.entries, os.cpu_count() or 1)
        self._continuity.see(states)
        return end

    def _streams(self, server: StreamServer, begin: Offsets | None = None) -> list[str]:
        """Return the streams that the options name, or those that the pattern matches now or has matched before.

        The first call with `begin` checks that the checkpoint is this query's. If the checkpoint names another group,
        it also checks that the query's group has no consumers of other programs.
        """
        found = self._selection.streams(server)
        if begin is None:
            return list(found)
        is_first = not self._checked
        if is_first:
            check_identity(self._options, self._address, begin, found)
        if self._options.pattern is not None and same_streams(self._options, begin):
            found = sorted({*found, *begin.streams})
        if is_first and begin.source.group != self._options.group:
            self._group.check_consumers(server, found)
        self._checked = True
        return list(found)

    def _new_starts(
        self, server: StreamServer, states: States, starts: Mapping[str, StreamId], *, changes: bool = True
    ) -> dict[str, StreamId]:
        """Return the position in each stream after which a new query begins. Positions in `starts` are used unchanged.

        With `changes`, the group is created at or moved to this position.
        """
        begins: dict[str, StreamId] = {}
        resumes: set[str] = set()
        for stream, state in states.items():
            position = self._options.starting.get(stream, _LATEST)
            latest = last_id_of(state) if position.kind == "latest" else ZERO
            begins[stream] = starts.get(stream, latest if position.after is None else position.after)
            if position.kind in ("latest", "group"):
                resumes.add(stream)
            if self._options.group is None and position.after is None and position.kind == "latest":
                self._latest_starts[stream] = begins[stream]
        new = self._group.start_new(server, begins, states) if changes else set()
        old = {stream: after for stream, after in begins.items() if stream not in new}
        resumed = self._group.start(server, old, states, resumes, changes=changes)
        return begins | resumed | {stream: starts[stream] for stream in begins.keys() & starts}

    def prepare_available_now(self) -> None:
        """Record the end of a query that stops after reading all existing entries."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states.of(self._streams(server), None)
        self._watch.reset()
        present = [(stream, state) for stream, state in states.items() if state is not None]
        self._targets = {stream: (state.last_id, state.entries_added) for stream, state in present}

    def next(self, begin: Offsets, *, unlimited: bool, may: Finish) -> Offsets:
        """Return the end of the next batch after `begin`; `begin` itself if there are no entries, or not enough yet.

        `may`: what is done with the entries up to `begin`.
        """
        with borrow(self._address) as connection:
            server = open_server(connection)
            streams = self._streams(server, begin)
            self.lease.renew(server, streams)
            self._group.finish(server, begin, may)
            due = self._watch.due(server, begin, streams, waits=self._targets is None)
            if not due and streams:
                return begin
            facts = self._facts(connection, server, begin, streams, due)
            limits = planning.unlimited(self._options) if unlimited else self._options
            planned = plan(begin, facts, limits, self._entries(server, begin, facts))
            self._carry_out(server, begin, streams, planned)
            if planned.end is not begin and not unlimited:
                self._planned_at = self._clock()
            return planned.end

    def _facts(
        self, connection: Connection, server: StreamServer, begin: Offsets, streams: Sequence[str], due: Sequence[str]
    ) -> Facts:
        """Return the facts for planning a batch. `due`: the streams that may have changed."""
        options = self._options
        states = server.states.of(due, options.group)
        self._note_ends(streams, states)
        self._check_new(begin, states)
        self._continuity.check_history(connection.generation, server, states)
        return Facts(
            frozenset(streams),
            states,
            self._continuity.find_starts(server, begin, states),
            source_of(options, self._address, begin),
            finds_streams=options.pattern is not None,
            targets=self._targets,
            latest_starts=self._latest_starts,
            waited=None if self._planned_at is None else (self._clock() - self._planned_at) * 1000,
            rotation=self._rotation,
            cores=os.cpu_count() or 1,
        )

    @property
    def _fails_missing(self) -> bool:
        return fails_missing(self._options, available_now=self._targets is not None)

    def _check_new(self, begin: Offsets, states: States) -> None:
        """Raise STREAM_MISSING for missing streams that no batch has read, or a pattern without matches, if that is an
        error.
        """
        new = {stream: None for stream, state in states.items() if state is None and begin.of(stream) == ZERO}
        if self._fails_missing and (new or not begin.streams):
            check_exist(self._options, new or states, self._address)

    def _carry_out(self, server: StreamServer, begin: Offsets, streams: Sequence[str], planned: BatchPlan) -> None:
        """Report losses, take the leases on the batch's streams, deliver the batch, and record facts for the next
        plan.
        """
        self._continuity.report(begin, planned)
        self._watch.settle(begin, planned.quiet, planned.noted)
        if planned.end is begin:
            return
        self._rotation += planned.is_limited
        # The leases are taken only when there is a batch, because a query that restarts before its first batch has a
        # new ID.
        self.lease.hold(server, query_of(begin), planned.moved)
        self._deliver(server, begin, planned.end, {stream: planned.seen[stream] for stream in planned.moved})
        self._continuity.record_batch(planned)
        if len(streams) > _FEW:
            self._watch.settle(planned.end, planned.read, planned.noted - planned.read.keys())

    def _entries(self, server: StreamServer, begin: Offsets, facts: Facts) -> Entries:
        """Return the entries to ask for the end of the batch after `begin`. A loss is reported before the delivery."""
        if facts.losses:
            return server.entries
        query = query_of(begin)
        return self._group.entries(server, facts.states, lambda streams: self.lease.hold(server, query, streams))

    def _note_ends(self, streams: Sequence[str], states: States) -> None:
        """Record the current ends of streams. A stream that is not in `states` has not changed."""
        before = {} if self._latest is None or len(states) == len(set(streams)) else self._latest.streams
        self._latest = Offsets({**before, **{stream: last_id_of(state) for stream, state in states.items()}})

    def partitions(self, begin: Offsets, end: Offsets) -> list[RangePartition]:
        """Return the partitions of the batch between two offsets.

        Delivers the batch's entries to the group if an earlier run planned the batch. Raises ENTRIES_LOST or
        STREAM_LOST if the batch cannot be read as planned, and GROUP_BEHIND.
        """
        options = self._options
        if not self._checked:
            check_identity(options, self._address, end, options.streams if options.pattern is None else None)
        tasks = tasks_between(begin, end)
        if end.starts is not None:
            self._continuity.check_ends(begin, end)
        if not tasks:
            return []
        by_stream = _by_stream(tasks)
        with borrow(self._address) as connection:
            server = open_server(connection)
            self.lease.hold(server, query_of(end), by_stream)
            existing = self._continuity.check_planned(server, begin, end, by_stream)
            contents = self._contents(server, end, by_stream, existing)
            self._deliver(server, begin, end, existing)
        known = {
            stream: Known.of(state).upto(by_stream[stream][-1].upto, end.added.get(stream))
            for stream, state in existing.items()
        }
        planned: list[RangePartition] = []
        for task in tasks:
            ranges = tuple(contents[part.stream, part.index] for part in task if part.stream in existing)
            if ranges:
                made = RangePartition(
                    self._address,
                    ranges,
                    options.page_size,
                    fails=options.fails,
                    known=known_of(ranges, known),
                )
                planned.append(made)
        return planned

    def _contents(
        self, server: StreamServer, end: Offsets, by_stream: Mapping[str, Sequence[Range]], existing: States
    ) -> dict[tuple[str, int], Range]:
        """Return each range, by stream and index, with its required contents."""
        parts = [
            replace(part, head=end.heads[part.stream]) if part.stream in end.heads and not part.index else part
            for part in itertools.chain.from_iterable(by_stream.values())
        ]
        expected = expect(parts, existing, server.entries)
        return {(part.stream, part.index): part for part in expected}

    def _deliver(self, server: StreamServer, begin: Offsets, end: Offsets, states: Mapping[str, StreamState]) -> None:
        """Deliver the batch between two offsets to the group, unless this run has delivered it.

        A batch is delivered when it is planned, and not while it is read: Spark may read only a part of it, none of it,
        or all of it several times. `states`: states of the batch's streams; other streams are not delivered.
        """
        if self._options.group is None or self._delivered is end:
            return
        # A group that was created after its stream's state was read is missing in that state.
        created = [stream for stream, state in states.items() if state.group is None]
        now = server.states.of(created, self._options.group)
        states = {**states, **{stream: state for stream, state in now.items() if state is not None}}
        wholes = wholes_between(begin, end, states)
        batches = [(whole, states[whole.stream], begin.added.get(whole.stream)) for whole in wholes]
        self._group.deliver(server, batches)
        self._delivered = end

    def commit(self, end: Offsets) -> None:
        """Acknowledge and trim everything up to `end`, which Spark has finished."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            self.lease.renew(server)
            self._group.finish(server, end, "trim")

    def stop(self) -> None:
        """Release the leases on the group at once, at the end of the query."""
        self.lease.give_up()


def _by_stream(tasks: Iterable[Iterable[Range]]) -> dict[str, list[Range]]:
    """Return the ranges of all tasks by stream, in order."""
    found: dict[str, list[Range]] = {}
    for part in itertools.chain.from_iterable(tasks):
        found.setdefault(part.stream, []).append(part)
    return found
