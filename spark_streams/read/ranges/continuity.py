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
from spark_streams.read.query.loss import Baseline, Known, Loss, find_missing
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.query.planning import Part, baseline_in
from spark_streams.read.ranges.owned_group import OwnedGroup
from streamclient.config.address import Address
from streamclient.streams.states import StreamState
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

    def report(self, parts: Sequence[Part]) -> None:
        """Raise an error for losses, or log a warning. Missing streams are reported once."""
        lost = {part.stream: part.loss for part in parts if part.loss is not None}
        loss.raise_or_warn(lost, self._address, fails=self._options.fails)
        self._missing |= {part.stream for part in parts if part.loss is not None and part.state is None}

    def record_batch(self, parts: Sequence[Part]) -> None:
        """Record the end of the planned batch."""
        for part in parts:
            state = part.seen
            if state is None:
                continue
            self._missing.discard(part.stream)
            if part.moves:
                self._ends.pop(part.stream, None)
                if state.entries_added is not None and state.max_deleted_id < part.end:
                    self._ends[part.stream] = part.end

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

    def find_starts(self, server: StreamServer, begin: Offsets, states: Mapping[str, StreamState | None]) -> list[Part]:
        """Return the parts of the next batch in these streams, with their starts and the losses before them. Creates
        missing groups in new streams.
        """
        parts = [Part(stream, state, baseline_in(begin, stream)) for stream, state in states.items()]
        new: list[Part] = []
        moved: list[Part] = []  # start elsewhere: of their facts, only the position is known so far
        continued: list[Part] = []
        for part in parts:
            stream, by_pattern = part.stream, self._options.pattern is not None
            # Whether a stream found by a pattern was read to its last known end.
            is_read = by_pattern and stream not in begin.unread and self._seen.get(stream, ZERO) <= part.known.after
            if stream not in begin.streams:
                part.is_new = True
                new.append(part)
            elif part.state is None and (is_read or stream in self._missing):
                if stream not in self._missing:
                    _log.warning("The stream %s was deleted after all of it had been read.", stream)
                    self._missing.add(stream)
                part.retired = is_read
            elif is_read and stream in self._missing:
                part.known, part.jumps = Baseline(ZERO), True
                new.append(part)
            elif begin.jumps.get(stream, ZERO) > begin.of(stream):  # an ID that the stream has not reached yet
                part.known, part.jumps = Baseline(begin.jumps[stream]), True
                moved.append(part)
            else:
                continued.append(part)
        self._group.create(server, {part.stream: part.state for part in new})
        backlogs = self._backlogs(server, {part.stream: part.known for part in continued}, states)
        for part in continued:
            part.loss = self._find_loss(part, backlogs[part.stream])
            if part.loss is None:
                part.backlog = backlogs[part.stream]
            elif part.state is not None:  # the loss of a missing stream is counted when the stream exists again
                part.jumps = part.loss.recreated
                part.known = Baseline(ZERO if part.jumps else part.known.after)
                moved.append(part)
        moved += new
        found = baselines_of(server, {part.stream: part.known.after for part in moved}, states)
        for part in moved:
            part.known = found[part.stream]
        self.see(states)
        return parts

    def _find_loss(self, part: Part, backlog: int | None) -> Loss | None:
        """Return the loss after the end of the last batch; None if no loss is known."""
        stream, after = part.stream, part.known.after
        found = loss.find_loss(part.known, part.state, backlog)
        forgotten = stream in self._forgotten and self._ends.pop(stream, None) == after
        self._forgotten.discard(stream)
        if found is None and forgotten:
            found = Loss("that entry is gone, although the stream has older and newer entries", after)
        return found

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
            stream: Loss(
                f"it ended at {end.of(stream)}, and its first entry was {end.firsts.get(stream)}",
                begin.of(stream),
                recreated=True,
            )
            for stream in sorted(begin.streams.keys() & end.streams)
            if end.is_another(begin, stream)
        }
        loss.raise_or_warn(losses, self._address, fails=self._options.fails)

    def check_planned(self, server: StreamServer, parts: Sequence[Part]) -> None:
        """Report losses in a batch that occurred after it was planned."""
        unknown: dict[str, Baseline] = {}
        losses: dict[str, Loss] = {}
        for part in parts:
            # Without a head, the offset does not show which entries of the batch had been deleted when it was planned.
            deleted = None if part.head is None else part.known.deleted
            known = Known(part.end, part.added, part.known.first, deleted=deleted)
            missing = find_missing(replace(part.whole, count=None, head=part.head), known, part.state)
            if missing is not None:
                losses[part.stream] = missing
            else:
                unknown[part.stream] = replace(part.known, deleted=max(part.known.deleted, part.end))
        states = {part.stream: part.state for part in parts}
        for stream, backlog in self._backlogs(server, unknown, states).items():
            found = loss.find_loss(unknown[stream], states[stream], backlog)
            if found is not None:
                losses[stream] = found
        loss.raise_or_warn(losses, self._address, fails=self._options.fails)


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
