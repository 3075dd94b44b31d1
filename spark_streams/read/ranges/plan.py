"""Planning of a micro-batch of a query that owns its positions: the batch's end, and its cuts into partitions.

`plan` gets an offset, facts and limits, and asks `entries` for further facts about all streams at once. It reads no
clock, changes nothing and logs nothing, so the same facts and answers always give the same batch.
`spark_streams.read.ranges.source` collects the facts and carries out the plan. The answers become part of the offset,
so a batch is planned only once. `tasks_between` derives the ranges and tasks from a batch's two offsets; they are the
same in every replay.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from spark_streams.config.read import LimitOptions
from spark_streams.read.query import planning
from spark_streams.read.query.loss import Baseline, Loss
from spark_streams.read.query.offsets import Offsets, Source
from spark_streams.read.query.planning import Ids, States, expect
from streamclient.streams.counting import Entries
from streamclient.streams.states import Cut, Range, StreamState, last_id_of
from streamwire.stream_id import ZERO, StreamId


def ranges_between(begin: Offsets, end: Offsets, sizes: Mapping[str, int] | None = None) -> list[Range]:
    """Return the ranges of the batch between two offsets; `sizes` are estimates of their numbers of entries."""
    was = begin.streams
    ends = {stream: upto for stream, upto in end.streams.items() if was.get(stream) != upto or stream in end.jumps}
    starts = {stream: end.jumps.get(stream, begin.of(stream)) for stream in ends}
    return planning.ranges(starts, ends, end.cuts, _entries_between(begin, end, ends), sizes)


def whole_from(state: StreamState | None) -> StreamId:
    """Return the position up to which a stream was read according to its group; 0-0 if the group is missing or has
    pending entries.

    If the query starts earlier, its first partition also reads the entries before this position.
    """
    group = None if state is None else state.group
    return ZERO if group is None or group.pending else group.last_delivered_id


def tasks_between(begin: Offsets, end: Offsets) -> list[tuple[Range, ...]]:
    """Return the ranges of the batch between two offsets, grouped by task."""
    if end.starts is None:
        return planning.by_task(ranges_between(begin, end), end.tasks)
    counts = _entries_between(begin, end, end.streams)
    seen: dict[str, int] = {}
    tasks: list[tuple[Range, ...]] = []
    for whole in planning.by_task(ranges_of_whole(end), end.tasks):
        rest: list[Range] = []
        for part in whole:
            stream = part.stream
            replaced = end.is_another(begin, stream)
            after = max(part.after, end.jumps.get(stream, ZERO if replaced else begin.of(stream)))
            if after >= part.upto:
                continue
            index = seen[stream] = seen.get(stream, -1) + 1
            count = part.count
            if not index:  # the planned part may begin before the batch
                count = None if replaced or stream in end.cuts else counts.get(stream)
            rest.append(Range(stream, after, part.upto, index, count))
        if rest:
            tasks.append(tuple(rest))
    return tasks


def wholes_between(begin: Offsets, end: Offsets, states: Mapping[str, StreamState]) -> list[Range]:
    """Return the range of the batch between two offsets in each of these streams that has one.

    Its number of entries is None if the offsets do not show it, or if entries may have been deleted in the range.
    """
    counts = _entries_between(begin, end, end.streams) if end.starts is None else {}
    found: dict[str, Range] = {}
    for part in itertools.chain.from_iterable(tasks_between(begin, end)):
        whole = found.get(part.stream)
        if whole is not None:
            count = None if whole.count is None or part.count is None else whole.count + part.count
            part = replace(whole, upto=part.upto, count=count)
        found[part.stream] = part
    return [
        replace(whole, count=counts.get(stream))
        if whole.count is None and states[stream].max_deleted_id <= whole.after
        else whole
        for stream, whole in found.items()
        if stream in states
    ]


def ranges_of_whole(end: Offsets, sizes: Mapping[str, int] | None = None) -> list[Range]:
    """Return the ranges of a read of everything up to an offset; `sizes` are estimates of their numbers of entries."""
    return planning.ranges(dict.fromkeys(end.streams, ZERO), end.streams, end.cuts, sizes=sizes)


def _entries_between(begin: Offsets, end: Offsets, streams: Iterable[str]) -> dict[str, int]:
    """Return each stream's number of entries in a batch, if both offsets count them and none were lost in between."""
    entries: dict[str, int] = {}
    for stream in streams:
        added, before = end.added.get(stream), begin.added.get(stream)
        is_clear = end.starts is not None or end.lost.get(stream) == begin.lost.get(stream)
        if (
            added is not None
            and before is not None
            and end.jumps.get(stream, begin.of(stream)) == begin.of(stream)
            and is_clear
        ):
            entries[stream] = added - before
    return entries


_SAMPLED = 20  # maximum number of streams in one round that samples or counts their entries


@dataclass(frozen=True)
class BatchStart:
    """Start of a stream's part of the next batch.

    `jumps`: whether the start differs from the end of the last batch. `loss`: loss found at the start. `backlog`: exact
    number of entries after the start; None if unknown. `retired`: whether the stream was deleted after all of it had
    been read.
    """

    baseline: Baseline
    jumps: bool = False
    loss: Loss | None = None
    backlog: int | None = None
    retired: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the batch begins at the end of the last batch, and its offset has neither a loss nor a deletion to
        record.
        """
        return not (self.jumps or self.loss or self.retired)


@dataclass(frozen=True)
class Facts:
    """Facts for planning a batch.

    `streams`: all streams of the query. `states` and `found`: states and starts of the streams that may have changed.
    `finds_streams`: whether a pattern finds the streams. Streams that it no longer finds are dropped. `targets`: for
    Trigger.AvailableNow, each stream's last ID and number of entries ever added at the query's start; None for other
    triggers. `latest_starts`: start of the first batch in streams that the query reads from their end. `waited`:
    milliseconds since the last batch was planned; None before the first batch. `rotation`: counter of limited batches.
    `cores`: cores for which tasks are planned.
    """

    streams: Collection[str]
    states: States
    found: Mapping[str, BatchStart]
    source: Source
    finds_streams: bool = False
    targets: Mapping[str, tuple[StreamId, int | None]] | None = None
    latest_starts: Ids = field(default_factory=dict)
    waited: float | None = None
    rotation: int = 0
    cores: int = 1

    @cached_property
    def starts(self) -> dict[str, StreamId]:
        """The position in each stream after which the batch begins."""
        return {stream: start.baseline.after for stream, start in self.found.items()}

    @cached_property
    def reach(self) -> dict[str, StreamId]:
        """The furthest position in each stream that the batch may reach."""
        lasts = {stream: last_id_of(state) for stream, state in self.states.items()}
        if self.targets is not None:
            lasts = {stream: min(last, self.targets.get(stream, (ZERO, 0))[0]) for stream, last in lasts.items()}
        return {stream: max(self.starts[stream], last) for stream, last in lasts.items()}

    @cached_property
    def losses(self) -> dict[str, Loss]:
        """The losses by stream. Streams without a loss are absent."""
        return {stream: start.loss for stream, start in self.found.items() if start.loss is not None}

    @property
    def has_entries(self) -> bool:
        """Whether any stream has entries for the batch."""
        return any(reach > self.starts[stream] for stream, reach in self.reach.items())


@dataclass(frozen=True)
class BatchPlan:
    """Result of planning a batch.

    `end`: the offset at the end of the batch, with its cuts, tasks and losses; the given offset if there is no batch.
    `losses`: losses to report before the batch is read. `quiet`: states of the streams without entries for the batch.
    `noted`: those streams in `quiet` that change the next offset nevertheless. `seen`: states of the streams whose
    positions in `end` were set by this plan. `moved`: streams with entries in the batch. `is_limited`: whether entries
    are left for the next batch.
    """

    end: Offsets
    losses: Mapping[str, Loss]
    quiet: States
    noted: frozenset[str]
    seen: Mapping[str, StreamState] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
    is_limited: bool = False

    @property
    def read(self) -> dict[str, StreamState]:
        """States of the streams that the batch reads to their end."""
        return {stream: state for stream, state in self.seen.items() if self.end.of(stream) == state.last_id}


@dataclass(frozen=True)
class _Admitted:
    """A batch's end in each stream, and the batch's number of entries in the stream if known.

    `limited`: streams with entries that the limits leave for a later batch.
    """

    ends: Ids
    counts: Mapping[str, int]
    limited: frozenset[str] = frozenset()


def plan(begin: Offsets, facts: Facts, limits: LimitOptions, entries: Entries) -> BatchPlan:
    """Plan the batch after `begin`, with as many entries as the limits allow.

    The batch is empty while the streams have fewer entries than the limits' minimum and the maximum delay has not
    passed.
    """
    quiet = {stream: state for stream, state in facts.states.items() if facts.reach[stream] <= facts.starts[stream]}
    noted = frozenset(stream for stream in quiet if stream not in begin.streams or not facts.found[stream].is_plain)
    admitted = _admit(facts, limits, entries) if facts.has_entries else None
    if admitted is None:
        return BatchPlan(begin, facts.losses, quiet, noted)
    seen = {
        stream: state
        for stream, state in facts.states.items()
        if state is not None and not facts.found[stream].retired and admitted.ends[stream] <= state.last_id
    }
    end, losses = _offset(begin, facts, limits, admitted, seen, entries)
    moved = frozenset(stream for stream, upto in admitted.ends.items() if upto > facts.starts[stream])
    return BatchPlan(end, losses, quiet, noted, seen, moved, bool(admitted.limited))


def first_offset(baselines: Mapping[str, Baseline], states: States, source: Source | None) -> Offsets:
    """Return the start of a new query. Each stream is read from its baseline, which may be beyond the stream's end."""
    lasts = {stream: last_id_of(state) for stream, state in states.items()}
    ahead = {stream: known.after for stream, known in baselines.items() if known.after > lasts[stream]}
    existing = {stream: state for stream, state in states.items() if state is not None}
    return Offsets(
        {stream: min(known.after, lasts[stream]) for stream, known in baselines.items()},
        added={
            stream: known.added
            for stream, known in baselines.items()
            if known.added is not None and stream not in ahead
        },
        deleted={stream: known.deleted for stream, known in baselines.items() if known.deleted > known.after},
        jumps=ahead,
        firsts={stream: state.first_id for stream, state in existing.items() if state.first_id is not None},
        unread=frozenset(stream for stream, state in existing.items() if baselines[stream].after < state.last_id),
        source=source,
    )


def plan_without_begin(
    starts: Ids, states: States, source: Source, limits: LimitOptions, entries: Entries, cores: int
) -> Offsets:
    """Return the end of a batch whose start is unknown: the end of the streams.

    `starts`: the positions after which the batch begins if the query is new.
    """
    ends = {stream: last_id_of(state) for stream, state in states.items()}
    wholes = {stream: whole_from(state) for stream, state in states.items()}
    cuts = planning.cuts(wholes, ends, {}, states, limits, entries)
    existing = {stream: state for stream, state in states.items() if state is not None}
    ahead = {stream: after for stream, after in starts.items() if after > ends[stream]}
    added = {stream: state.entries_added for stream, state in existing.items() if state.entries_added is not None}
    end = Offsets(
        ends,
        added={**dict.fromkeys(states.keys() - existing.keys() - ahead.keys(), 0), **added},
        cuts=_of_several(cuts),
        jumps=ahead,
        firsts={stream: state.first_id for stream, state in existing.items() if state.first_id is not None},
        source=source,
        starts=starts,
    )
    sizes = {stream: state.length for stream, state in existing.items()}
    return replace(end, tasks=planning.tasks(ranges_of_whole(end, sizes), limits, cores))


def _admit(facts: Facts, limits: LimitOptions, entries: Entries) -> _Admitted | None:
    """Return the end of the batch that the limits admit; None to wait for more entries."""
    if limits.max_entries is None and limits.min_entries is None:
        return _Admitted(facts.reach, {})
    backlogs = _backlogs(facts, entries)
    if not _is_enough(facts, limits, backlogs, entries):
        return None
    sizes = {stream: count for stream, (count, _) in backlogs.items()}
    certain = {stream: count for stream, (count, is_certain) in backlogs.items() if is_certain}
    limit = limits.max_entries
    lengths = {stream: 0 if state is None else state.length for stream, state in facts.states.items()}
    if limit is None or sum((lengths | certain).values()) <= limit:
        return _Admitted(facts.reach, certain)
    ends, counts = planning.limited(limit, facts.starts, facts.reach, sizes, entries, facts.rotation)
    return _Admitted(ends, counts, frozenset(stream for stream, end in ends.items() if end < facts.reach[stream]))


def _backlogs(facts: Facts, entries: Entries) -> dict[str, tuple[int, bool]]:
    """Return the number of entries that each stream has for the batch, and whether it is certain (not an estimate)."""
    found: dict[str, tuple[int, bool]] = {}
    requested: list[tuple[str, StreamId, StreamId]] = []
    for stream, end in facts.reach.items():
        start, state, known = facts.starts[stream], facts.states[stream], facts.found[stream].backlog
        if state is None or end <= start:
            found[stream] = 0, True
            continue
        count, is_certain = state.backlog(start)
        if end < state.last_id:
            is_certain = False
        elif known is not None:
            count, is_certain = known, True
        found[stream] = count, is_certain
        if not is_certain and entries.counts_cheaply:
            requested.append((stream, start, end))
    counted = entries.counts(requested)
    found.update((stream, (count, True)) for (stream, *_), count in zip(requested, counted, strict=True))
    return found


def _is_enough(facts: Facts, limits: LimitOptions, backlogs: Mapping[str, tuple[int, bool]], entries: Entries) -> bool:
    """Return whether the minimum is reached, or the maximum delay has passed.

    The first batch and Trigger.AvailableNow do not wait.
    """
    missing = limits.min_entries
    if missing is None or facts.targets is not None or facts.waited is None or facts.waited >= limits.max_delay:
        return True
    missing -= sum(count for count, is_certain in backlogs.values() if is_certain)
    unknown = [stream for stream, (_, is_certain) in backlogs.items() if not is_certain]
    while missing > 0 and unknown:
        some, unknown = unknown[:_SAMPLED], unknown[_SAMPLED:]
        requested = [(stream, facts.starts[stream], missing, facts.reach[stream]) for stream in some]
        found = entries.nths(requested)
        missing -= sum(count for _, count in found)
    return missing <= 0


def _offset(
    begin: Offsets,
    facts: Facts,
    limits: LimitOptions,
    admitted: _Admitted,
    seen: Mapping[str, StreamState],
    entries: Entries,
) -> tuple[Offsets, Mapping[str, Loss]]:
    """Return the offset at the end of a batch (positions, and everything that a replay needs), and the batch's losses.

    Deleted streams that were read completely, and streams that a changed pattern no longer finds, are dropped. All
    other streams that are not in `seen` keep their position.
    """
    starts, ends = facts.found, admitted.ends
    retired = {stream for stream, start in starts.items() if start.retired}
    # An earlier pattern found these streams, and the current pattern does not.
    dropped = begin.streams.keys() - facts.streams if facts.finds_streams else frozenset()
    retained = begin.streams.keys() - retired - dropped
    old = retained - seen.keys()
    streams = {stream: begin.streams[stream] for stream in old} | {stream: ends[stream] for stream in seen}
    firsts = {
        stream: first
        for stream, first in begin.firsts.items()
        if stream in old or (stream in retained and not starts[stream].jumps)
    }
    firsts |= {stream: state.first_id for stream, state in seen.items() if state.first_id is not None}
    added = {stream: total for stream, total in begin.added.items() if stream in old}
    added |= _added(facts, admitted, seen, entries)
    cuts, heads, missing = _parts(begin, facts, limits, admitted, seen, added, entries)
    losses = facts.losses | missing
    lost = {stream: count for stream, count in begin.lost.items() if stream in retained}
    lost |= {stream: lost.get(stream, 0) + found.at_least for stream, found in losses.items() if stream in seen}
    # For each stream, the largest deleted ID is recorded if it is after this ID: the batch's start if the stream has a
    # head (see `_parts`), otherwise the batch's end.
    aheads = {stream: facts.starts[stream] if stream in heads else ends[stream] for stream in seen}
    end = Offsets(
        streams,
        added=added,
        deleted={
            **{stream: upto for stream, upto in begin.deleted.items() if stream in retained and stream not in starts},
            **{stream: state.max_deleted_id for stream, state in seen.items() if state.max_deleted_id > aheads[stream]},
        },
        cuts=cuts,
        jumps=_jumps(begin, facts, ends),
        lost=lost,
        firsts=firsts,
        heads=heads,
        unread=frozenset(
            (begin.unread & old) | {stream for stream, state in seen.items() if ends[stream] < state.last_id}
        ),
        source=facts.source,
    )
    sizes = planning.estimates(facts.starts, facts.states)
    return replace(end, tasks=planning.tasks(ranges_between(begin, end, sizes), limits, facts.cores)), losses


def _jumps(begin: Offsets, facts: Facts, ends: Ids) -> dict[str, StreamId]:
    """Return the batch's start in each stream for which a replay might not find the start in the previous offset."""
    # If the first batch is repeated, Spark requests the query's start again, and the streams may have grown meanwhile.
    latest = {
        stream: after
        for stream, after in facts.latest_starts.items()
        if stream in facts.starts and facts.starts[stream] == begin.of(stream) == after < ends[stream]
    }
    return {stream: facts.starts[stream] for stream, start in facts.found.items() if start.jumps} | latest


def _added(facts: Facts, admitted: _Admitted, seen: Mapping[str, StreamState], entries: Entries) -> dict[str, int]:
    """Return the number of entries ever added to each stream up to the end of a batch, if it can be known."""
    added: dict[str, int] = {}
    uncounted: list[tuple[str, StreamId, StreamId]] = []
    for stream, state in seen.items():
        before, start, end = facts.found[stream].baseline.added, facts.starts[stream], admitted.ends[stream]
        count, target = admitted.counts.get(stream), (facts.targets or {}).get(stream)
        if end == start:
            total = before
        elif end == state.last_id:
            total = state.entries_added
        elif count is not None and before is not None:
            total = before + count
        else:
            total = target[1] if target is not None and target[0] == end else None
        if total is not None:
            added[stream] = total
        elif entries.counts_cheaply and before is not None:
            uncounted.append((stream, start, end))
    counted = entries.counts(uncounted)
    for (stream, *_), count in zip(uncounted, counted, strict=True):
        added[stream] = (facts.found[stream].baseline.added or 0) + count
    return added


def _parts(
    begin: Offsets,
    facts: Facts,
    limits: LimitOptions,
    admitted: _Admitted,
    seen: Mapping[str, StreamState],
    added: Mapping[str, int],
    entries: Entries,
) -> tuple[dict[str, tuple[Cut, ...]], dict[str, StreamId], dict[str, Loss]]:
    """Return the cuts of streams into partitions, the heads, and losses.

    Cuts and heads record what a range must contain, unless the batch's two offsets show it. A known number of entries
    is recorded as a cut. If the number is unknown, the ID of the first entry is recorded as the head. If the parts of a
    stream were counted, and the offsets show that there were more entries, the others are lost.
    """
    several = planning.cuts(facts.starts, admitted.ends, admitted.counts, facts.states, limits, entries)
    cuts = _of_several(several)
    found = dict(cuts)
    losses: dict[str, Loss] = {}
    uncounted: list[Range] = []
    for stream, state in seen.items():
        start, end, before = facts.starts[stream], admitted.ends[stream], facts.found[stream].baseline.added
        if end <= start:
            continue
        counts = [count for _, count in cuts.get(stream, ()) if count is not None]
        if before is not None and stream in added and stream in cuts and len(counts) == len(cuts[stream]):
            missing = added[stream] - before - sum(counts)
            if missing > 0:
                losses[stream] = Loss("", upto=end, count=missing)
        if stream not in cuts:
            if before is not None and stream in added:
                if stream not in begin.added or facts.found[stream].jumps or stream in facts.losses:
                    found[stream] = ((end, added[stream] - before),)
                continue
            if stream in admitted.limited:
                found[stream] = ((end, admitted.counts[stream]),)
                continue
        elif all(count is not None for _, count in cuts[stream]):
            continue
        if state.entries_added is not None:
            uncounted.append(Range(stream, start, end, 0))
    expected = expect(uncounted, facts.states, entries)
    for part in expected:
        if part.count is not None and part.stream not in found:
            found[part.stream] = ((part.upto, part.count),)
    return found, {part.stream: part.head for part in expected if part.head is not None}, losses


def _of_several(cuts: Mapping[str, Collection[Cut]]) -> dict[str, tuple[Cut, ...]]:
    """Return the cuts of those streams that have more than one part."""
    return {stream: tuple(found) for stream, found in cuts.items() if len(found) > 1}
