"""Continuity of a stream: the start of its next batch, and losses before that start.

This module owns the facts of each stream that are carried from one trigger to the next. `spark_streams.read.query.loss`
decides which contradictions between an offset and a stream's state are losses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_streams.config.read import ReadOptions
from spark_streams.errors import first_of
from spark_streams.read.query import loss
from spark_streams.read.query.contents import find_missing
from spark_streams.read.query.loss import Baseline, Known, Loss
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.ranges.backlog import counted_backlog
from spark_streams.read.ranges.owned_group import OwnedGroup
from spark_streams.read.ranges.plan import BatchPlan, BatchStart
from streamclient.config.address import Address
from streamclient.streams import rounds
from streamclient.streams.model import Range, StreamState
from streamclient.streams.rounds import Steps
from streamclient.streams.stream_server import StreamServer
from streamwire.stream_id import ZERO, StreamId

_log = logging.getLogger("spark_streams")


class Continuity:
    """One query's facts about its streams.

    Determines the starts of batches from the streams' states, and reports losses as errors or warnings.
    """

    def __init__(self, options: ReadOptions, address: Address, group: OwnedGroup) -> None:
        self._options = options
        self._address = address
        self._group = group
        #: By stream: the number of removed entries and the ID of the first entry at the last count that found no
        #: missing entries.
        self._counted: dict[str, tuple[int, StreamId | None]] = {}
        self._seen: dict[str, StreamId] = {}  # each stream's last ID when it last existed
        self._missing: set[str] = set()  # missing streams that were retired, or whose loss was already logged
        self._ends: dict[str, StreamId] = {}  # the last entry of each stream's last batch
        self._generation = 0  # generation of the connection through which the streams were last seen
        self._forgotten: set[str] = set()  # streams that lost their entry in `_ends` but have older entries

    def see(self, states: Mapping[str, StreamState | None]) -> None:
        """Record the current ends of the existing streams."""
        self._seen.update((stream, state.last_id) for stream, state in states.items() if state is not None)

    def report(self, begin: Offsets, planned: BatchPlan) -> None:
        """Raise an error for losses, or log a warning. Missing streams are reported once."""
        losses = planned.losses.items()
        problems = {stream: found.error(stream, baseline_in(begin, stream), self._address) for stream, found in losses}
        if problems and self._options.fails:
            raise first_of(problems)
        for problem in problems.values():
            _log.warning("%s", problem)
        self._missing |= {stream for stream in problems if stream in planned.quiet and planned.quiet[stream] is None}

    def record_batch(self, planned: BatchPlan) -> None:
        """Record the end of the planned batch."""
        self._missing -= planned.seen.keys()
        for stream in planned.moved:
            state, end = planned.seen[stream], planned.end.of(stream)
            self._ends.pop(stream, None)
            if state.entries_added is not None and state.max_deleted_id < end:
                self._ends[stream] = end

    def check_history(self, generation: int, server: StreamServer, states: Mapping[str, StreamState | None]) -> None:
        """If the connection was replaced, check whether the streams still have the last entries that were read.

        A replica that takes over, or a server that restarts, may have lost entries that were read, and clients may have
        added other entries since. If these have smaller IDs than the position, no other check detects the loss.
        """
        if self._generation == generation:
            return
        self._generation = generation
        suspects = {
            stream: end
            for stream, end in self._ends.items()
            if (state := states.get(stream)) is not None
            and state.first_id is not None
            and state.first_id <= end <= state.last_id
            and state.max_deleted_id < end
        }
        if suspects:
            self._forgotten = server.streams.missing(suspects)

    def find_starts(
        self, server: StreamServer, begin: Offsets, states: Mapping[str, StreamState | None]
    ) -> dict[str, BatchStart]:
        """Find losses, and return the start of the next batch in each of these streams. Creates missing groups in new
        streams.
        """
        found = {stream: self._find_start(server, begin, stream, state) for stream, state in states.items()}
        starts = rounds.for_each(server, found)
        self.see(states)
        return starts

    def _find_start(
        self, server: StreamServer, begin: Offsets, stream: str, state: StreamState | None
    ) -> Steps[BatchStart]:
        if stream not in begin.streams:
            yield from self._group.create(stream, state)
            return BatchStart((yield from baseline_of(server, stream, ZERO, state)))
        if state is None and stream in self._missing:
            return BatchStart(baseline_in(begin, stream), retired=self._is_read(begin, stream))
        if state is None and self._is_read(begin, stream):
            _log.warning("The stream %s was deleted after all of it had been read.", stream)
            self._missing.add(stream)
            return BatchStart(baseline_in(begin, stream), retired=True)
        if stream in self._missing and self._is_read(begin, stream):
            yield from self._group.create(stream, state)
            return BatchStart((yield from baseline_of(server, stream, ZERO, state)), jumps=True)
        ahead = begin.begins.get(stream, ZERO)
        if ahead > begin.of(stream):  # the query starts at an ID or a time that the stream has not reached yet
            return BatchStart((yield from baseline_of(server, stream, ahead, state)), jumps=True)
        baseline = baseline_in(begin, stream)
        backlog = yield from self._backlog(server, stream, baseline, state)
        found = loss.find_loss(baseline, state, backlog)
        forgotten = stream in self._forgotten and self._ends.pop(stream, None) == baseline.after
        self._forgotten.discard(stream)
        if found is None and forgotten:
            found = Loss("that entry is gone, although the stream has older and newer entries")
        if found is None:
            return BatchStart(baseline, backlog=backlog)
        if state is None:
            return BatchStart(baseline, loss=found)  # the offset counts this loss when the stream exists again
        after = ZERO if found.recreated else baseline.after
        return BatchStart((yield from baseline_of(server, stream, after, state)), jumps=found.recreated, loss=found)

    def _is_read(self, begin: Offsets, stream: str) -> bool:
        """Return whether a stream found by a pattern was read to its last known end."""
        if self._options.pattern is None or stream in begin.unread:
            return False
        return self._seen.get(stream, ZERO) <= begin.of(stream)

    def _backlog(
        self, server: StreamServer, stream: str, baseline: Baseline, state: StreamState | None
    ) -> Steps[int | None]:
        """Return the exact number of entries after a position; None if it is unknown.

        Entries are counted only if some were removed from the stream since the last complete count, or if its first
        entry has changed. Otherwise the number follows from the number of added entries. So a trigger's cost does not
        depend on the length of the stream.
        """
        added = None if state is None else state.entries_added
        if state is None or added is None or baseline.added is None or added < baseline.added:
            return (yield from counted_backlog(server, stream, baseline.after, state))
        now = (added - state.length, state.first_id)
        if self._counted.get(stream) == now:
            return added - baseline.added
        backlog = yield from counted_backlog(server, stream, baseline.after, state)
        if backlog is not None and backlog >= added - baseline.added:
            self._counted[stream] = now
        return backlog

    def check_ends(self, begin: Offsets, end: Offsets) -> None:
        """Report streams that were replaced between start and end.

        Used for an end that was planned without knowing the start.
        """
        for stream in sorted(begin.streams.keys() & end.streams):
            if end.is_another(begin, stream):
                last, first = end.of(stream), end.firsts.get(stream)
                found = Loss(f"it ended at {last}, and its first entry was {first}", recreated=True)
                loss.raise_or_warn(found, stream, baseline_in(begin, stream), self._address, fails=self._options.fails)

    def check_planned(
        self, server: StreamServer, begin: Offsets, end: Offsets, by_stream: Mapping[str, Sequence[Range]]
    ) -> dict[str, StreamState]:
        """Report losses in a batch that occurred after it was planned. Returns the states of the existing streams."""
        states = server.states.of([*by_stream], self._options.group)
        checks = {
            stream: self._check_ranges(server, begin, end, parts, states[stream]) for stream, parts in by_stream.items()
        }
        rounds.for_each(server, checks)
        return {stream: state for stream, state in states.items() if state is not None}

    def _check_ranges(
        self, server: StreamServer, begin: Offsets, end: Offsets, parts: Sequence[Range], state: StreamState | None
    ) -> Steps[None]:
        stream, upto = parts[0].stream, parts[-1].upto
        first, head = end.firsts.get(stream), end.heads.get(stream)
        baseline = baseline_in(begin, stream)
        deleted = max(baseline.deleted, end.deleted.get(stream, ZERO))
        baseline = replace(baseline, deleted=max(deleted, upto), first=first)
        was_replaced = end.starts is not None and end.is_another(begin, stream)
        jumps = end.begins.get(stream, begin.of(stream)) != begin.of(stream)
        if jumps or stream not in begin.streams or was_replaced:
            baseline = Baseline(parts[0].after, deleted=baseline.deleted, first=first)
        if end.lost.get(stream, 0) > begin.lost.get(stream, 0):
            baseline = replace(baseline, added=None)  # losses before the batch was planned are already reported
        # Without a head, the offset does not show which entries of the batch had been deleted when it was planned.
        known = Known(upto, end.added.get(stream), first, deleted=None if head is None else deleted)
        found = find_missing(Range(stream, parts[0].after, upto, 0, head=head), known, state)
        if found is None:
            backlog = yield from self._backlog(server, stream, baseline, state)
            found = loss.find_loss(baseline, state, backlog)
        if found is not None:
            loss.raise_or_warn(found, stream, baseline, self._address, fails=self._options.fails)


def baseline_in(offset: Offsets, stream: str) -> Baseline:
    """Return the facts about a stream in an offset."""
    first = offset.firsts.get(stream)
    return Baseline(offset.of(stream), offset.added.get(stream), offset.deleted.get(stream, ZERO), first)


def baseline_of(server: StreamServer, stream: str, after: StreamId, state: StreamState | None) -> Steps[Baseline]:
    """Return the current facts of a stream, for the start of reading. Earlier losses are not counted."""
    if state is None:
        return Baseline(after, 0 if after == ZERO else None)
    backlog = yield from counted_backlog(server, stream, after, state)
    added = None if backlog is None or state.entries_added is None else state.entries_added - backlog
    return Baseline(after, added, state.max_deleted_id, state.first_id)
