"""Continuity of a stream: the start of its next batch, and losses before that start.

This module owns the facts of each stream that are carried from one trigger to the next. `spark_streams.read.query.loss`
decides which contradictions between an offset and a stream's state are losses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_streams.config.read import ReadOptions
from spark_streams.read.query import loss
from spark_streams.read.query.loss import Baseline, Known, Loss
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.query.planning import find_missing
from spark_streams.read.ranges.owned_group import OwnedGroup
from spark_streams.read.ranges.plan import BatchPlan, BatchStart
from streamclient.config.address import Address
from streamclient.streams.states import Range, StreamState
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
        baselines = {stream: baseline_in(begin, stream) for stream in planned.losses}
        loss.raise_or_warn(planned.losses, baselines, self._address, fails=self._options.fails)
        self._missing |= {
            stream for stream in planned.losses if stream in planned.quiet and planned.quiet[stream] is None
        }

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
        starts: dict[str, BatchStart] = {}
        fresh: dict[str, BatchStart] = {}  # starts whose baseline has only the position so far
        new: list[str] = []
        continued: dict[str, Baseline] = {}
        for stream, state in states.items():
            baseline, is_read = baseline_in(begin, stream), self._is_read(begin, stream)
            if stream not in begin.streams:
                new.append(stream)
                fresh[stream] = BatchStart(Baseline(ZERO))
            elif state is None and stream in self._missing:
                starts[stream] = BatchStart(baseline, retired=is_read)
            elif state is None and is_read:
                _log.warning("The stream %s was deleted after all of it had been read.", stream)
                self._missing.add(stream)
                starts[stream] = BatchStart(baseline, retired=True)
            elif stream in self._missing and is_read:
                new.append(stream)
                fresh[stream] = BatchStart(Baseline(ZERO), jumps=True)
            elif begin.jumps.get(stream, ZERO) > begin.of(stream):  # an ID that the stream has not reached yet
                fresh[stream] = BatchStart(Baseline(begin.jumps[stream]), jumps=True)
            else:
                continued[stream] = baseline
        self._group.create(server, {stream: states[stream] for stream in new})
        backlogs = self._backlogs(server, continued, states)
        for stream, baseline in continued.items():
            found = self._find_loss(stream, baseline, states[stream], backlogs[stream])
            if found is None:
                starts[stream] = BatchStart(baseline, backlog=backlogs[stream])
            elif states[stream] is None:  # the offset counts this loss when the stream exists again
                starts[stream] = BatchStart(baseline, loss=found)
            else:
                after = ZERO if found.recreated else baseline.after
                fresh[stream] = BatchStart(Baseline(after), jumps=found.recreated, loss=found)
        baselines = baselines_of(server, {stream: start.baseline.after for stream, start in fresh.items()}, states)
        starts |= {stream: replace(start, baseline=baselines[stream]) for stream, start in fresh.items()}
        self.see(states)
        return {stream: starts[stream] for stream in states}

    def _find_loss(
        self, stream: str, baseline: Baseline, state: StreamState | None, backlog: int | None
    ) -> Loss | None:
        """Return the loss after the end of the last batch; None if no loss is known."""
        found = loss.find_loss(baseline, state, backlog)
        forgotten = stream in self._forgotten and self._ends.pop(stream, None) == baseline.after
        self._forgotten.discard(stream)
        if found is None and forgotten:
            found = Loss("that entry is gone, although the stream has older and newer entries")
        return found

    def _is_read(self, begin: Offsets, stream: str) -> bool:
        """Return whether a stream found by a pattern was read to its last known end."""
        if self._options.pattern is None or stream in begin.unread:
            return False
        return self._seen.get(stream, ZERO) <= begin.of(stream)

    def _backlogs(
        self, server: StreamServer, baselines: Mapping[str, Baseline], states: Mapping[str, StreamState | None]
    ) -> dict[str, int | None]:
        """Return the exact number of entries after each position; None if it is unknown.

        Entries are counted only if some were removed from the stream since the last complete count, or if its first
        entry has changed. Otherwise the number follows from the number of added entries. So a trigger's cost does not
        depend on the length of the stream.
        """
        found: dict[str, int | None] = {}
        expected: dict[str, int] = {}  # entries added since the position
        now: dict[str, tuple[int, StreamId | None]] = {}
        for stream, baseline in baselines.items():
            state = states[stream]
            added = None if state is None else state.entries_added
            if state is None or added is None or baseline.added is None or added < baseline.added:
                continue
            expected[stream], now[stream] = added - baseline.added, (added - state.length, state.first_id)
            if self._counted.get(stream) == now[stream]:
                found[stream] = expected[stream]
        unknown = {stream: baseline.after for stream, baseline in baselines.items() if stream not in found}
        for stream, backlog in server.entries.backlogs(unknown, states).items():
            found[stream] = backlog
            if backlog is not None and stream in expected and backlog >= expected[stream]:
                self._counted[stream] = now[stream]
        return found

    def check_ends(self, begin: Offsets, end: Offsets) -> None:
        """Report streams that were replaced between start and end.

        Used for an end that was planned without knowing the start.
        """
        losses = {
            stream: Loss(f"it ended at {end.of(stream)}, and its first entry was {end.firsts.get(stream)}", True)
            for stream in sorted(begin.streams.keys() & end.streams)
            if end.is_another(begin, stream)
        }
        baselines = {stream: baseline_in(begin, stream) for stream in losses}
        loss.raise_or_warn(losses, baselines, self._address, fails=self._options.fails)

    def check_planned(
        self, server: StreamServer, begin: Offsets, end: Offsets, by_stream: Mapping[str, Sequence[Range]]
    ) -> dict[str, StreamState]:
        """Report losses in a batch that occurred after it was planned. Returns the states of the existing streams."""
        states = server.states.of([*by_stream], self._options.group)
        baselines: dict[str, Baseline] = {}
        losses: dict[str, Loss] = {}
        for stream, parts in by_stream.items():
            baseline, upto = self._planned_baseline(begin, end, parts), parts[-1].upto
            baselines[stream] = replace(baseline, deleted=max(baseline.deleted, upto))
            first, head = end.firsts.get(stream), end.heads.get(stream)
            # Without a head, the offset does not show which entries of the batch had been deleted when it was planned.
            known = Known(upto, end.added.get(stream), first, deleted=None if head is None else baseline.deleted)
            missing = find_missing(Range(stream, parts[0].after, upto, 0, head=head), known, states[stream])
            if missing is not None:
                losses[stream] = missing
        unknown = {stream: baseline for stream, baseline in baselines.items() if stream not in losses}
        for stream, backlog in self._backlogs(server, unknown, states).items():
            found = loss.find_loss(baselines[stream], states[stream], backlog)
            if found is not None:
                losses[stream] = found
        loss.raise_or_warn(
            {stream: losses[stream] for stream in by_stream if stream in losses},
            baselines,
            self._address,
            fails=self._options.fails,
        )
        return {stream: state for stream, state in states.items() if state is not None}

    def _planned_baseline(self, begin: Offsets, end: Offsets, parts: Sequence[Range]) -> Baseline:
        """Return the facts about a stream before a batch that was planned earlier."""
        stream, first = parts[0].stream, end.firsts.get(parts[0].stream)
        baseline = baseline_in(begin, stream)
        deleted = max(baseline.deleted, end.deleted.get(stream, ZERO))
        was_replaced = end.starts is not None and end.is_another(begin, stream)
        jumps = end.jumps.get(stream, begin.of(stream)) != begin.of(stream)
        if jumps or stream not in begin.streams or was_replaced:
            return Baseline(parts[0].after, deleted=deleted, first=first)
        if end.lost.get(stream, 0) > begin.lost.get(stream, 0):
            baseline = replace(baseline, added=None)  # losses before the batch was planned are already reported
        return replace(baseline, deleted=deleted, first=first)


def baseline_in(offset: Offsets, stream: str) -> Baseline:
    """Return the facts about a stream in an offset."""
    first = offset.firsts.get(stream)
    return Baseline(offset.of(stream), offset.added.get(stream), offset.deleted.get(stream, ZERO), first)


def baselines_of(
    server: StreamServer, positions: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
) -> dict[str, Baseline]:
    """Return the current facts of streams at positions, for the start of reading. Earlier losses are not counted."""
    added = server.entries.added(positions, states)
    found: dict[str, Baseline] = {}
    for stream, after in positions.items():
        state = states[stream]
        if state is None:
            found[stream] = Baseline(after, 0 if after == ZERO else None)
        else:
            found[stream] = Baseline(after, added[stream], state.max_deleted_id, state.first_id)
    return found
