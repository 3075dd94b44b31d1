"""Consuming by ranges: the driver side of a query that owns its positions and, optionally, a consumer group.

To answer Spark's calls, this module collects the facts of a batch, plans it (`plan`), and carries the plan out. The
rows of a batch follow from its two offsets alone; the group (`owned_group`) never determines them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence

from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.read.query import planning
from spark_streams.read.query.lease import Lease
from spark_streams.read.query.loss import Known
from spark_streams.read.query.offsets import (
    Finish,
    Offsets,
    check_identity,
    same_streams,
    source_of,
    source_without_begin,
)
from spark_streams.read.query.partition import RangePartition
from spark_streams.read.query.planning import (
    Facts,
    Part,
    States,
    expect,
    first_offset,
    parts_between,
    plan,
    plan_without_begin,
    tasks_between,
)
from spark_streams.read.query.selection import Selection, Watch, check_exist, fails_missing
from spark_streams.read.ranges.continuity import Continuity, baselines_of
from spark_streams.read.ranges.owned_group import OwnedGroup
from streamclient.config.address import Address
from streamclient.pool import borrow
from streamclient.streams.counting import Entries
from streamclient.streams.states import last_id_of
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
        resumed = self._group.start(server, begins, states, resumes, changes=changes)
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
            states = server.states.of(due, self._options.group)
            self._note_ends(streams, states)
            self._check_new(begin, states)
            self._continuity.check_history(connection.generation, server, states)
            parts = self._continuity.find_starts(server, begin, states)
            facts = Facts(
                frozenset(streams),
                source_of(self._options, self._address, begin),
                finds_streams=self._options.pattern is not None,
                targets=self._targets,
                latest_starts=self._latest_starts,
                waited=None if self._planned_at is None else (self._clock() - self._planned_at) * 1000,
                rotation=self._rotation,
                cores=os.cpu_count() or 1,
            )
            limits = planning.unlimited(self._options) if unlimited else self._options
            end = plan(begin, parts, facts, limits, self._entries(server, facts.source.query, parts))
            self._continuity.report(parts)
            quiet = [part for part in parts if part.is_quiet]
            noted = {part.stream for part in quiet if not part.is_plain}
            self._watch.settle(begin, {part.stream: part.state for part in quiet}, noted)
            if end is begin:
                return begin
            self._rotation += any(part.end < part.reach for part in parts)
            # The leases are taken only when there is a batch, because a query that restarts before its first batch has
            # a new ID.
            moved = [part for part in parts if part.seen is not None and part.moves]
            self.lease.hold(server, end.source.query, [part.stream for part in moved])
            self._deliver(server, end, moved)
            self._continuity.record_batch(parts)
            if len(streams) > _FEW:
                read = {part.stream: part.state for part in parts if part.is_read}
                self._watch.settle(end, read, noted - read.keys())
            if not unlimited:
                self._planned_at = self._clock()
            return end

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

    def _entries(self, server: StreamServer, query: str, parts: Sequence[Part]) -> Entries:
        """Return the entries to ask for the end of the next batch. A loss is reported before the delivery."""
        if any(part.loss is not None for part in parts):
            return server.entries
        states = {part.stream: part.state for part in parts}
        return self._group.entries(server, states, lambda streams: self.lease.hold(server, query, streams))

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
        streams = list(dict.fromkeys(each.stream for task in tasks for each in task))
        with borrow(self._address) as connection:
            server = open_server(connection)
            self.lease.hold(server, end.source.query, streams)
            states = server.states.of(streams, options.group)
            parts = parts_between(begin, end, tasks, states)
            self._continuity.check_planned(server, parts)
            existing = [part for part in parts if part.state is not None]
            expected = expect([each for part in existing for each in part.ranges], states, server.entries)
            self._deliver(server, end, existing)
        contents = {(each.stream, each.index): each for each in expected}
        known = {part.stream: Known.of(part.state).upto(part.end, part.added) for part in parts if part.state}
        planned: list[RangePartition] = []
        for task in tasks:
            ranges = tuple(contents[each.stream, each.index] for each in task if each.stream in known)
            if ranges:
                made = RangePartition(
                    self._address,
                    ranges,
                    options.page_size,
                    fails=options.fails,
                    known={part.stream: known[part.stream] for part in ranges},
                )
                planned.append(made)
        return planned

    def _deliver(self, server: StreamServer, end: Offsets, parts: Sequence[Part]) -> None:
        """Deliver the parts of the batch that ends at `end` to the group, unless this run has delivered it.

        A batch is delivered when it is planned, and not while it is read: Spark may read only a part of it, none of it,
        or all of it several times.
        """
        if self._options.group is None or self._delivered is end:
            return
        # A group that was created after its stream's state was read is missing in that state.
        created = [part.stream for part in parts if part.state is not None and part.state.group is None]
        now = server.states.of(created, self._options.group)
        states = [(part, now.get(part.stream) or part.state) for part in parts]
        self._group.deliver(server, [(part.whole, state, part.known.added) for part, state in states if state])
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
