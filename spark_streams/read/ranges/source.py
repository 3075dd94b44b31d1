"""Consuming by ranges: a query that owns its positions, and its consumer group if it has one.

Owns where a new query begins, which entries belong to the next batch, and how they are cut into partitions. Everything
that decides which rows a batch has is in its two offsets; the group (`owned_group`) never decides it.
It is one file of more than four hundred lines: each of Spark's calls goes on from what the one before left.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.read.query import belonging, planning
from spark_streams.read.query.contents import expect
from spark_streams.read.query.lease import Lease
from spark_streams.read.query.loss import Baseline, Known
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.query.selection import Selection, start_of
from spark_streams.read.query.watch import Watch
from spark_streams.read.ranges.admission import Limits
from spark_streams.read.ranges.ahead import Ahead, Question
from spark_streams.read.ranges.continuity import Begin, Continuity, baseline_of
from spark_streams.read.ranges.from_replicas import Preference
from spark_streams.read.ranges.owned_group import OwnedGroup
from spark_streams.read.ranges.parts import States, cuts_of, ranges_between, ranges_of_whole, tasks_between, whole_from
from spark_streams.read.ranges.task import RangePartition, known_of
from streamclient.config.address import Address
from streamclient.pool import borrow
from streamclient.streams import rounds
from streamclient.streams.api import StreamServer
from streamclient.streams.model import Cut, Range, StreamState, last_id_of
from streamclient.streams.open import open_server
from streamwire.stream_id import ZERO, StreamId

_log = logging.getLogger("spark_streams")
_LATEST = Position("latest")
_FEW = 8  # streams: after a batch their states cost no more than the question which of them have changed


class RangeSource:
    """The driver's half of a query that reads ranges. Its methods answer Spark's calls, in terms of `Offsets`."""

    def __init__(self, options: ReadOptions, address: Address) -> None:
        self._options = options
        self._address = address
        self._selection = Selection(options)
        self._limits = Limits(options)
        self._watch = Watch(options.idle_wait)
        self._finished: tuple[Offsets, bool | None] | None = None  # what was acknowledged last
        self._group = OwnedGroup(options, address)
        self._ahead = Ahead(address, self._group)
        self._lease = Lease(options, address, work=self._ahead)
        self._target: dict[str, tuple[StreamId, int | None]] | None = None  # where to stop: last ID, entries added
        self._latest: Offsets | None = None
        self._last_ids: dict[str, StreamId] = {}
        self._latest_starts: dict[str, StreamId] = {}  # where a new query without a group began at the end of a stream
        self._continuity = Continuity(options, address, self._group)
        self._checked = False  # whether the checkpoint is known to be this query's

    @property
    def latest(self) -> Offsets | None:
        """Where the streams ended when they were last looked at; None before that."""
        return self._latest

    def initial(self, end: Offsets | None = None, *, is_new: bool = False) -> Offsets:
        """Where a new query begins. With a group, that is fixed in the group.

        `end`: the end of its first batch, if that says where it begins. `is_new`: no earlier run has seen it.
        """
        starts = {} if end is None or end.starts is None else end.starts
        if is_new:
            self._lease.begin_anew()
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(self._streams(server), self._options.group)
            begins = self._begins(server, states, starts)
            ahead = {stream: after for stream, after in begins.items() if after > last_id_of(states[stream])}
            added: dict[str, int] = {}
            deleted: dict[str, StreamId] = {}
            baselines = {stream: baseline_of(server, stream, after, states[stream]) for stream, after in begins.items()}
            for stream, baseline in rounds.for_each(server, baselines).items():
                after = begins[stream]
                if baseline.added is not None and stream not in ahead:
                    added[stream] = baseline.added
                if baseline.deleted > after:
                    deleted[stream] = baseline.deleted
            reached = {stream: min(after, last_id_of(states[stream])) for stream, after in begins.items()}
            present = {stream: state for stream, state in states.items() if state is not None}
            for stream in states.keys() - present.keys():
                _log.warning("The stream %s does not exist yet: the query waits for it.", stream)
            self._continuity.see(states)
            return Offsets(
                reached,
                added=added,
                deleted=deleted,
                begins=ahead,
                firsts={stream: state.first_id for stream, state in present.items() if state.first_id is not None},
                unread=frozenset(stream for stream, state in present.items() if begins[stream] < state.last_id),
                source=end.source if end is not None and starts else belonging.source_of(self._options, self._address),
            )

    def everything(self) -> Offsets:
        """The end of a batch of which nobody has said where it begins: where the streams end now. Changes no server."""
        options = self._options
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(self._streams(server), options.group)
            starts = self._begins(server, states, {}, changes=False)
            wholes = {stream: Begin(Baseline(whole_from(state))) for stream, state in states.items()}
            ends = {stream: last_id_of(state) for stream, state in states.items()}
            cuts = cuts_of(options, server, wholes, ends, {}, states, exact=False)
        self._continuity.see(states)
        ahead = {stream: after for stream, after in starts.items() if after > ends[stream]}
        there = {stream: state for stream, state in states.items() if state is not None}
        added = {stream: state.entries_added for stream, state in there.items() if state.entries_added is not None}
        end = Offsets(
            ends,
            added={**dict.fromkeys(states.keys() - there.keys() - ahead.keys(), 0), **added},
            cuts=cuts,
            begins=ahead,
            firsts={stream: state.first_id for stream, state in there.items() if state.first_id is not None},
            source=belonging.source_without_begin(options, self._address),
            starts=starts,
        )
        sizes = {stream: state.length for stream, state in there.items()}
        tasks = planning.tasks(ranges_of_whole(end, sizes), options)
        return end if len(tasks) == sum(tasks) else replace(end, tasks=tuple(tasks))

    def _streams(self, server: StreamServer, begin: Offsets | None = None) -> list[str]:
        """The query's streams: those named, or those the pattern matches now and those it matched before."""
        streams = self._selection.streams(server)
        if begin is not None and not self._checked:
            belonging.check(self._options, self._address, begin, streams)
            self._checked = True
        if self._options.pattern is None:
            return list(streams)
        begun: Iterable[str] = ()
        if begin is not None and belonging.same_streams(self._options, begin):
            begun = begin.streams
        return sorted({*streams, *begun})

    def _begins(
        self, server: StreamServer, states: States, starts: Mapping[str, StreamId], *, changes: bool = True
    ) -> dict[str, StreamId]:
        """The position in each stream after which a new query begins: in those of `starts`, there.

        The group is made or moved accordingly, unless nothing `changes`.
        """
        begins: dict[str, StreamId] = {}
        resumes: dict[str, bool] = {}
        for stream, state in states.items():
            position = start_of(self._options, stream, _LATEST, state)
            latest = last_id_of(state) if position.kind == "latest" else ZERO
            begins[stream] = starts.get(stream, latest if position.after is None else position.after)
            resumes[stream] = position.kind in ("latest", "group")
            if self._options.group is None and position.after is None and position.kind == "latest":
                self._latest_starts[stream] = begins[stream]
        new = self._group.start_new(server, begins, states) if changes else set()
        there = {
            stream: self._group.start(server, stream, states[stream], after, resumes=resumes[stream], changes=changes)
            for stream, after in begins.items()
            if stream not in new
        }
        return begins | rounds.for_each(server, there) | {stream: starts[stream] for stream in begins.keys() & starts}

    def prepare_available_now(self) -> None:
        """Fix the end of a query that stops when it has read what is there now."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(self._streams(server), None)
        self._watch.forget()
        present = [(stream, state) for stream, state in states.items() if state is not None]
        self._target = {stream: (state.last_id, state.entries_added) for stream, state in present}

    def next(self, begin: Offsets, *, unlimited: bool, durable: bool | None) -> Offsets:
        """The end of the next batch after `begin`; `begin` itself if there is nothing to read, or not enough yet.

        `durable`: no restart asks for anything before `begin`; None if that is not known.
        """
        with borrow(self._address) as connection:
            server = open_server(connection)
            is_first = not self._checked
            streams = self._streams(server, begin)
            if is_first and begin.source is not None and begin.source.group != self._options.group:
                rounds.for_each(server, {stream: self._group.check_consumers(stream) for stream in streams})
            self._lease.renew(server)
            if self._finished is None or self._finished[0] is not begin or self._finished[1] != durable:
                self._group.finish(server, begin, durable=durable)
                self._finished = begin, durable
            due = self._watch.due(server, begin, streams, waits=self._target is None)
            if not due and streams:
                return begin
            states = server.states(due, self._options.group)
            self._note_ends(streams, states)
            self._continuity.check_history(connection.generation, server, states)
            continued = (self._continuity.begin(server, begin, stream, state) for stream, state in states.items())
            begins = rounds.for_each(server, dict(zip(states, continued, strict=True)))
            self._continuity.see(states)
            starts = {stream: found.baseline.after for stream, found in begins.items()}
            ends = {stream: self._end(stream, starts[stream], state) for stream, state in states.items()}
            whole = ends
            quiet = {stream: state for stream, state in states.items() if ends[stream] <= starts[stream]}
            noted = {stream for stream in quiet if stream not in begin.streams or not begins[stream].is_plain}
            self._watch.settle(begin, quiet, noted)
            if all(ends[stream] <= starts[stream] for stream in ends):
                return begin
            counts: dict[str, int] = {}
            if not unlimited:
                backlogs = {stream: found.backlog for stream, found in begins.items()}
                self._ahead.tell(server, connection.generation, starts, states)
                admitted = self._limits.admit(server, starts, ends, states, backlogs, waits=self._target is None)
                if admitted is None:
                    return begin
                ends, counts = admitted.ends, admitted.counts
            # Not before there is a batch: until then a query that is started again has another ID.
            taken = (stream for stream in ends if ends[stream] > starts[stream])
            self._lease.hold(server, belonging.query_of(begin), taken)
            limited = {stream for stream in counts if ends[stream] < whole[stream]}
            planned = self._offsets_at(server, begin, set(streams), begins, ends, counts, limited, states)
            ended = ((stream, state) for stream, state in states.items() if state is not None)
            read = {stream: state for stream, state in ended if ends[stream] == state.last_id == planned.of(stream)}
            if len(streams) > _FEW:
                self._watch.settle(planned, read, noted - read.keys())
            self._note_ahead(server, connection.generation, planned, whole, counts, states)
            return planned

    def _note_ahead(
        self,
        server: StreamServer,
        generation: int,
        planned: Offsets,
        ends: Mapping[str, StreamId],
        counts: Mapping[str, int],
        states: States,
    ) -> None:
        """Have the end of the next batch looked for, if it is to have as many entries of one stream as this one has.

        `ends`: the furthest that it may reach.
        """
        options, limit = self._options, self._options.max_entries
        waiting = [stream for stream, end in ends.items() if planned.of(stream) < end]
        if limit is None or options.max_bytes is not None or len(waiting) != 1 or server.counts_cheaply:
            return
        (stream,) = waiting
        state, added = states[stream], planned.added.get(stream)
        if state is None or added is None or counts.get(stream) != limit or server.scripted(waiting):
            return
        total = state.entries_added if self._target is None else self._target[stream][1]
        parts = planning.parts({stream: limit}, options.min_partitions, options.max_per_partition)[stream]
        # Of a last batch that just fits, the end is known; a delivery finds where it is cut, too.
        pays = parts > 1 and self._group.delivers_ahead
        if total is not None and total - added >= limit + (not pays):
            whole = state.entries_added or 0
            question = Question(stream, planned.of(stream), added, limit, ends[stream], generation, whole, parts)
            self._ahead.note(question, state)

    def _note_ends(self, streams: Iterable[str], states: States) -> None:
        """Note where the streams end now; those that are not among `states` end where they did."""
        if len(states) == len(set(streams)):
            self._last_ids = {}
        self._last_ids.update((stream, last_id_of(state)) for stream, state in states.items())
        self._latest = Offsets(self._last_ids)

    def _end(self, stream: str, start: StreamId, state: StreamState | None) -> StreamId:
        """The furthest that a batch may reach in a stream now."""
        last = last_id_of(state)
        if self._target is not None:
            last = min(last, self._target.get(stream, (ZERO, 0))[0])
        return max(start, last)

    def _offsets_at(
        self,
        server: StreamServer,
        begin: Offsets,
        ours: Collection[str],
        begins: Mapping[str, Begin],
        ends: Mapping[str, StreamId],
        counts: Mapping[str, int],
        limited: Collection[str],
        states: States,
    ) -> Offsets:
        """The offset at the end of a batch: positions, and everything that reading it again needs.

        The streams `ours` that are not in `begins` are where they were. Of those `limited` the end was found by
        counting.
        """
        streams = dict(begin.streams)
        added, lost = dict(begin.added), dict(begin.lost)
        firsts, unread = dict(begin.firsts), set(begin.unread)
        deleted = {stream: upto for stream, upto in begin.deleted.items() if stream not in begins}
        if self._options.pattern is not None:
            for stream in streams.keys() - ours:  # another pattern found it
                for values in (streams, added, lost, firsts, deleted):
                    values.pop(stream, None)
        uncounted: list[tuple[str, StreamId, StreamId]] = []
        for stream, found in begins.items():
            state, end, baseline = states[stream], ends[stream], found.baseline
            if found.retired:
                for values in (streams, added, lost, firsts):
                    values.pop(stream, None)
                continue
            if state is None or end > state.last_id:
                continue
            self._continuity.found(stream)
            if end > baseline.after:
                self._continuity.ends(stream, end, state)
            streams[stream] = end
            if state.first_id is not None:
                firsts[stream] = state.first_id
            elif found.jumps:
                firsts.pop(stream, None)
            unread.discard(stream)
            if end < state.last_id:
                unread.add(stream)
            total = self._added_at(stream, end, baseline, counts.get(stream), state)
            if total is None and server.counts_cheaply and baseline.added is not None:
                uncounted.append((stream, baseline.after, end))
            added.pop(stream, None)
            if total is not None:
                added[stream] = total
            if state.max_deleted_id > end:
                deleted[stream] = state.max_deleted_id
            if found.lost:
                lost[stream] = lost.get(stream, 0) + found.lost
        for (stream, *_), number in zip(uncounted, server.counts(uncounted), strict=True):
            added[stream] = (begins[stream].baseline.added or 0) + number
        jumps = {stream: found.baseline.after for stream, found in begins.items() if found.jumps}
        # If the first batch is repeated, Spark asks again where the query begins, and the streams end elsewhere then.
        jumps |= {
            stream: after
            for stream, after in self._latest_starts.items()
            if stream in begins and begins[stream].baseline.after == begin.of(stream) == after < ends[stream]
        }
        exact = self._options.group is not None and self._options.ack == "commit"
        cuts = cuts_of(self._options, server, begins, ends, counts, states, exact=exact)
        heads = self._counted_or_headed(server, begin, begins, ends, counts, limited, states, added, cuts)
        for stream in heads:
            state = states[stream]
            if state is not None and state.max_deleted_id > begins[stream].baseline.after:
                deleted[stream] = state.max_deleted_id
        planned = Offsets(
            streams,
            added=added,
            deleted=deleted,
            cuts=cuts,
            begins=jumps,
            lost=lost,
            firsts=firsts,
            heads=heads,
            unread=frozenset(unread & streams.keys()),
            source=belonging.source_of(self._options, self._address, begin),
        )
        sizes = {
            stream: 0 if state is None else state.backlog(begins[stream].baseline.after)[0]
            for stream, state in states.items()
        }
        tasks = planning.tasks(ranges_between(begin, planned, sizes), self._options)
        return planned if len(tasks) == sum(tasks) else replace(planned, tasks=tuple(tasks))

    def _counted_or_headed(
        self,
        server: StreamServer,
        begin: Offsets,
        begins: Mapping[str, Begin],
        ends: Mapping[str, StreamId],
        counts: Mapping[str, int],
        limited: Collection[str],
        states: States,
        added: Mapping[str, int],
        cuts: dict[str, tuple[Cut, ...]],
    ) -> dict[str, StreamId]:
        """The first entries of those parts of a batch of which two offsets do not say how many entries they have.

        Where the number is known, it is written down as a cut instead.
        """
        uncounted: list[Range] = []
        for stream, found in begins.items():
            state, after, end, before = states[stream], found.baseline.after, ends[stream], found.baseline.added
            if state is None or found.retired or not after < end <= state.last_id:
                continue
            if stream not in cuts:
                is_told = stream in begin.added and not (found.jumps or found.lost)
                if before is not None and stream in added:
                    if not is_told:
                        cuts[stream] = ((end, added[stream] - before),)
                    continue
                if stream in limited:
                    cuts[stream] = ((end, counts[stream]),)
                    continue
            elif all(count is not None for _, count in cuts[stream]):
                continue
            if state.entries_added is not None:
                uncounted.append(Range(stream, after, end, 0))
        found_heads = expect(server, uncounted, states)
        for part in found_heads:
            if part.count is not None and part.stream not in cuts:
                cuts[part.stream] = ((part.upto, part.count),)
        return {part.stream: part.head for part in found_heads if part.head is not None}

    def _added_at(
        self, stream: str, end: StreamId, baseline: Baseline, count: int | None, state: StreamState
    ) -> int | None:
        """How many entries were ever added up to the end of a batch, if that is known without asking."""
        if end == baseline.after:
            return baseline.added
        if end == state.last_id:
            return state.entries_added
        if count is not None and baseline.added is not None:
            return baseline.added + count
        target = (self._target or {}).get(stream)
        return target[1] if target is not None and target[0] == end else None

    def plan(self, begin: Offsets, end: Offsets) -> list[RangePartition]:
        """The partitions of the batch between two offsets. Unless their tasks do it, they are delivered to the group.

        Raises ENTRIES_LOST or STREAM_LOST if the batch cannot be read as planned, and GROUP_BEHIND.
        """
        options = self._options
        if not self._checked:
            belonging.check(options, self._address, end, options.streams if options.pattern is None else None)
        tasks = tasks_between(begin, end)
        if end.starts is not None:
            self._continuity.check_ends(begin, end)
        if not tasks:
            return []
        by_stream: dict[str, list[Range]] = {}
        for part in itertools.chain.from_iterable(tasks):
            by_stream.setdefault(part.stream, []).append(part)
        streams = list(by_stream)
        with borrow(self._address) as connection:
            server = open_server(connection)
            self._lease.hold(server, belonging.query_of(end), streams)
            states = server.states(streams, options.group)
            checks = {
                stream: self._continuity.check_planned(server, begin, end, parts, states[stream])
                for stream, parts in by_stream.items()
            }
            rounds.for_each(server, checks)
            there = {stream: state for stream, state in states.items() if state is not None}
            parts = [
                replace(part, head=end.heads[part.stream]) if part.stream in end.heads and not part.index else part
                for part in itertools.chain.from_iterable(by_stream.values())
            ]
            contents = {(part.stream, part.index): part for part in expect(server, parts, there)}
            known = {
                stream: Known.of(state).upto(by_stream[stream][-1].upto, end.added.get(stream))
                for stream, state in there.items()
            }
            # What a task delivers itself it reads from the primary.
            reads_replicas = options.read_from != "primary"
            alone = set() if reads_replicas else {task[0].stream for task in tasks if len(task) == 1}
            ours = [(by_stream[stream], state, begin.added.get(stream)) for stream, state in there.items()]
            left = self._group.deliver(server, ours, alone, self._ahead.delivers)
            preference = Preference(options.read_from, options.zone_of_tasks).marked(connection, there)
        planned: list[RangePartition] = []
        for task in tasks:
            ranges = tuple(contents[part.stream, part.index] for part in task if part.stream in there)
            delivers = left.intersection(part.stream for part in ranges)
            made = RangePartition(
                self._address,
                ranges,
                options.page_size,
                fails=options.fails,
                preference=preference,
                known=known_of(ranges, known),
            )
            if delivers:
                made = replace(made, group=options.group, prefix=options.consumer, delivers=delivers)
            if ranges:
                planned.append(made)
        self._ahead.begin()
        return planned

    def stop(self) -> None:
        """The query has ended: another one may have its group at once."""
        self._lease.give_up()

    def commit(self, end: Offsets) -> None:
        """Spark has finished everything up to `end`: acknowledge and trim it."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            self._lease.renew(server)
            self._group.finish(server, end, durable=True)
