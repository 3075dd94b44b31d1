"""Consuming by ranges: a query that owns its positions, and its consumer group if it has one.

Owns what happens between Spark's calls and the server: where a query begins, what belongs to the next batch,
how it is cut into partitions, what was lost, what is delivered to the group and acknowledged. Everything that decides
which rows a batch has is in its two offsets; the group's state never does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from spark_streams.client.connection import borrow
from spark_streams.config.address import Address
from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.read import loss, planning
from spark_streams.read.admission import Limits
from spark_streams.read.loss import Known
from spark_streams.read.offsets import Offsets
from spark_streams.read.range_task import StreamPartition
from spark_streams.server.api import StreamServer
from spark_streams.server.model import Cut, Range, StreamState, last_id_of
from spark_streams.server.open import open_server
from spark_streams.stream_id import LAST, ZERO, StreamId

_log = logging.getLogger("spark_streams")
_LATEST = Position("latest")


@dataclass(frozen=True)
class _Begin:
    """Where a stream's part of the next batch begins. `anew` if not where the last one ended.

    `following`: how many entries are there behind it, if that is known.
    """

    known: Known
    anew: bool = False
    lost: int = 0
    following: int | None = None


class RangeSource:
    """One query's way through its streams."""

    def __init__(self, options: ReadOptions, address: Address) -> None:
        self._options = options
        self._address = address
        self._limits = Limits(options)
        self._target: dict[str, tuple[StreamId, int | None]] | None = None
        self._latest: Offsets | None = None
        self._finished: dict[str, StreamId] = {}
        self._delivered: dict[str, StreamId] = {}  # where the batch began that was delivered last
        self._removed: dict[str, int] = {}

    @property
    def latest(self) -> Offsets | None:
        """Where the streams ended when they were last looked at."""
        return self._latest

    def initial(self) -> Offsets:
        """Where a new query begins; with a group, that is fixed in the group."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(self._streams(server, ()), self._options.group)
            begins = {stream: self._begin(server, stream, state) for stream, state in states.items()}
            ahead = {stream: after for stream, after in begins.items() if after > last_id_of(states[stream])}
            added: dict[str, int] = {}
            deleted: dict[str, StreamId] = {}
            for stream, after in begins.items():
                known = _baseline(server, stream, after, states[stream])
                if known.added is not None and stream not in ahead:
                    added[stream] = known.added
                if known.deleted > after:
                    deleted[stream] = known.deleted
            reached = {stream: min(after, last_id_of(states[stream])) for stream, after in begins.items()}
            return Offsets(reached, added=added, deleted=deleted, begins=ahead)

    def _streams(self, server: StreamServer, begun: Iterable[str]) -> list[str]:
        pattern = self._options.pattern
        if pattern is None:
            return list(self._options.streams)
        return sorted({*server.find_streams(pattern), *begun})

    def _begin(self, server: StreamServer, stream: str, state: StreamState | None) -> StreamId:
        starting = self._options.starting
        position = _LATEST if starting is None else starting.get(stream, _LATEST)
        after = position.after
        if after is None:
            after = last_id_of(state) if position.kind == "latest" else ZERO
        group = self._options.group
        if group is None:
            return after
        held = state.group if state is not None else None
        if held is None:
            if server.create_group(stream, group, after):
                return after
            state = server.states([stream], group)[stream]
            held = state.group if state is not None else None
        if held is None:
            return after
        if position.kind in ("latest", "group"):
            # If the very first batch was begun and never finished, its entries are pending: it is to begin there again.
            oldest = server.first_pending_id(stream, group, self._options.consumer) if held.pending else None
            return held.last_delivered_id if oldest is None else min(held.last_delivered_id, oldest.before())
        if held.last_delivered_id != after and self._options.ack != "none":
            server.set_group_position(stream, group, after)
        return after

    def prepare_available_now(self) -> None:
        """Fix the end of a query that is to end."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(self._streams(server, ()), None)
        self._target = {
            stream: (state.last_id, state.entries_added) for stream, state in states.items() if state is not None
        }

    def next(self, begin: Offsets, *, unlimited: bool) -> Offsets:
        """The end of the next batch after `begin`; `begin` itself where there is none."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            self.finish(server, begin)
            states = server.states(self._streams(server, begin.streams), self._options.group)
            self._latest = Offsets({stream: last_id_of(state) for stream, state in states.items()})
            begins = {stream: self._examine(server, begin, stream, state) for stream, state in states.items()}
            starts = {stream: found.known.after for stream, found in begins.items()}
            ends = {stream: self._end(stream, starts[stream], state) for stream, state in states.items()}
            if all(ends[stream] <= starts[stream] for stream in ends):
                return begin
            counts: dict[str, int] = {}
            if not unlimited:
                following = {stream: found.following for stream, found in begins.items()}
                taken = self._limits.apply(server, starts, ends, states, following, waits=self._target is None)
                if taken is None:
                    return begin
                ends, counts = taken.ends, taken.counts
            return self._planned(server, begin, begins, ends, counts, states)

    def _examine(self, server: StreamServer, begin: Offsets, stream: str, state: StreamState | None) -> _Begin:
        """Where the next batch begins in a stream; data that was lost is an error, or noted and passed over."""
        if stream not in begin.streams:
            if state is not None and state.group is None and self._options.group is not None:
                server.create_group(stream, self._options.group, ZERO)
            return _Begin(_baseline(server, stream, ZERO, state))
        ahead = begin.begins.get(stream, ZERO)
        if ahead > begin.of(stream):  # the query is to begin at an ID or a time that the stream has not reached yet
            return _Begin(_baseline(server, stream, ahead, state), anew=True)
        known = Known(begin.of(stream), begin.added.get(stream), begin.deleted.get(stream, ZERO))
        following = self._backlog_behind(server, stream, known, state)
        finding = loss.look(known, state, following)
        if finding is None:
            return _Begin(known, following=following)
        lost = loss.report(finding, stream, known, self._address, fails=self._options.fails)
        if state is None:
            return _Begin(known)  # the loss is counted when the stream is there again
        if finding.anew:
            return _Begin(_baseline(server, stream, ZERO, state), anew=True, lost=lost)
        return _Begin(_baseline(server, stream, known.after, state), lost=lost)

    def _backlog_behind(self, server: StreamServer, stream: str, known: Known, state: StreamState | None) -> int | None:
        """How many entries there are behind a position.

        They are counted only if entries of the stream were removed since they were counted last and none was missing:
        else there are as many as were added. So a trigger costs the same however long the stream is.
        """
        if state is None or state.entries_added is None or known.added is None or state.entries_added < known.added:
            return _exact_backlog(server, stream, known.after, state)
        removed = state.entries_added - state.length
        if self._removed.get(stream) == removed:
            return state.entries_added - known.added
        following = _exact_backlog(server, stream, known.after, state)
        if following is not None and following >= state.entries_added - known.added:
            self._removed[stream] = removed
        return following

    def _end(self, stream: str, start: StreamId, state: StreamState | None) -> StreamId:
        last = last_id_of(state)
        if self._target is not None:
            last = min(last, self._target.get(stream, (ZERO, 0))[0])
        return max(start, last)

    def _planned(
        self,
        server: StreamServer,
        begin: Offsets,
        begins: dict[str, _Begin],
        ends: dict[str, StreamId],
        counts: dict[str, int],
        states: dict[str, StreamState | None],
    ) -> Offsets:
        """The offset at the end of a batch: positions, and all that reading it again needs."""
        lasts = {stream: state.last_id for stream, state in states.items() if state is not None}
        offset = Offsets(
            {**begin.streams, **{stream: ends[stream] for stream, last in lasts.items() if ends[stream] <= last}},
            added=dict(begin.added),
            deleted={},
            cuts=self._cuts(server, begins, ends, counts, states),
            begins={stream: found.known.after for stream, found in begins.items() if found.anew},
            lost=dict(begin.lost),
        )
        # The dataclass is frozen, its dictionaries are this function's own until it returns.
        added: Any = offset.added
        deleted: Any = offset.deleted
        lost: Any = offset.lost
        for stream, found in begins.items():
            state = states[stream]
            end = ends[stream]
            if state is None or end > state.last_id:
                continue
            total = self._added(stream, end, found.known, counts.get(stream), state)
            if total is None and server.counts_cheaply and found.known.added is not None:
                total = found.known.added + server.count(stream, found.known.after, end)
            added.pop(stream, None)
            if total is not None:
                added[stream] = total
            if state.max_deleted_id > end:
                deleted[stream] = state.max_deleted_id
            if found.lost:
                lost[stream] = lost.get(stream, 0) + found.lost
        return offset

    def _added(self, stream: str, end: StreamId, known: Known, count: int | None, state: StreamState) -> int | None:
        """How many entries were ever added up to the end of a batch, if that can be known without asking."""
        if end == known.after:
            return known.added
        if end == state.last_id:
            return state.entries_added
        if count is not None and known.added is not None:
            return known.added + count
        target = (self._target or {}).get(stream)
        return target[1] if target is not None and target[0] == end else None

    def _cuts(
        self,
        server: StreamServer,
        begins: dict[str, _Begin],
        ends: dict[str, StreamId],
        counts: dict[str, int],
        states: dict[str, StreamState | None],
    ) -> dict[str, tuple[Cut, ...]]:
        least, most = self._options.min_partitions, self._options.max_per_partition
        if least <= 1 and most is None:
            return {}
        sizes: dict[str, int] = {}
        for stream, found in begins.items():
            state = states[stream]
            if state is None or ends[stream] <= found.known.after:
                continue
            size = counts.get(stream)
            if size is None and server.counts_cheaply:
                size = server.count(stream, found.known.after, ends[stream])
            sizes[stream] = state.backlog(found.known.after)[0] if size is None else size
        exact = self._options.group is not None and self._options.ack == "commit"
        cuts: dict[str, tuple[Cut, ...]] = {}
        for stream, parts in planning.parts(sizes, least, most).items():
            if parts > 1 or (most is not None and stream not in counts):
                part = Range(stream, begins[stream].known.after, ends[stream], 0)
                found_cuts = server.split(part, parts, most, exact=exact)
                if len(found_cuts) > 1:
                    cuts[stream] = tuple(found_cuts)
        return cuts

    def plan(self, begin: Offsets, end: Offsets) -> list[StreamPartition]:
        """The partitions of the batch between two offsets, delivered to the group where that is done beforehand."""
        options = self._options
        starts = {stream: end.begins.get(stream, begin.of(stream)) for stream in end.streams}
        parts = planning.ranges(starts, end.streams, end.cuts, _expected(begin, end))
        if not parts:
            return []
        streams = sorted({part.stream for part in parts})
        planned: list[StreamPartition] = []
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(streams, options.group)
            for stream in streams:
                ours = [part for part in parts if part.stream == stream]
                state = self._still_there(server, begin, end, ours, states[stream])
                if state is None:
                    continue
                by_task = self._deliver(server, ours, state)
                for part in ours:
                    name = f"{options.consumer}-{part.index}"
                    group = options.group if by_task else None
                    planned.append(
                        StreamPartition(self._address, part, options.page_size, group, name, fails=options.fails)
                    )
        return planned

    def _still_there(
        self, server: StreamServer, begin: Offsets, end: Offsets, parts: list[Range], state: StreamState | None
    ) -> StreamState | None:
        """The stream's state if the batch can be read from it: what was planned may have been lost since."""
        stream, upto = parts[0].stream, parts[-1].upto
        known = Known(begin.of(stream), begin.added.get(stream), max(begin.deleted.get(stream, ZERO), upto))
        if stream in end.begins or stream not in begin.streams:
            known = Known(parts[0].after)
        if end.lost.get(stream, 0) > begin.lost.get(stream, 0):
            known = replace(known, added=None)  # what was lost before the batch was planned is known already
        finding = loss.look(replace(known, after=upto, added=None), state, None)
        if finding is None:
            finding = loss.look(known, state, self._backlog_behind(server, stream, known, state))
        if finding is not None:
            loss.report(finding, stream, known, self._address, fails=self._options.fails)
        return state

    def _deliver(self, server: StreamServer, parts: list[Range], state: StreamState) -> bool:
        """Put a stream's ranges into the group's pending list; true if its one task is to do that."""
        group, after, stream = self._options.group, parts[0].after, parts[0].stream
        if group is None or self._options.ack == "none":
            return False
        position = after
        if state.group is None:
            server.create_group(stream, group, after)
        elif state.group.last_delivered_id < after:
            behind, found = server.nth(stream, state.group.last_delivered_id, 1, after)
            if found and not self._was_lost_on_the_way(stream, state.group.last_delivered_id, after):
                if self._options.fails:
                    at = state.group.last_delivered_id
                    fail("GROUP_BEHIND", group=group, stream=stream, position=at, after=after, first=behind)
                _log.warning("The group %s of %s was behind %s; it was moved there.", group, stream, after)
            server.set_group_position(stream, group, after)
        else:
            position = state.group.last_delivered_id
        self._delivered[stream] = after
        return self._options.ack == "commit" and not server.deliver(parts, group, self._options.consumer, position)

    def _was_lost_on_the_way(self, stream: str, position: StreamId, after: StreamId) -> bool:
        """Whether the group may be behind only because a replica took over that did not have the last batch's delivery.

        That batch is finished and none of its entries is missing, or the stream's state would have said so.
        """
        before = self._delivered.get(stream)
        return self._address.kind != "single" and before is not None and before <= position < after

    def commit(self, end: Offsets) -> None:
        """Spark has finished everything up to `end`."""
        with borrow(self._address) as connection:
            self.finish(open_server(connection), end)

    def finish(self, server: StreamServer, finished: Offsets) -> None:
        """Acknowledge, and trim, what is finished. The first call may come after a restart: it looks at everything."""
        group = self._options.group
        if not self._options.trims and (group is None or self._options.ack == "none"):
            return
        for stream, upto in finished.streams.items():
            if self._finished.get(stream) == upto or upto == ZERO:
                continue
            if group is not None and self._options.ack == "commit":
                server.acknowledge(stream, group, self._options.consumer, upto)
            elif group is not None and self._options.ack == "cursor":
                state = server.states([stream], group)[stream]
                if (
                    state is not None
                    and state.group is not None
                    and state.group.last_delivered_id < upto <= state.last_id
                ):
                    server.set_group_position(stream, group, upto)
            if self._options.trims:
                unfinished = server.first_unfinished_id(stream)
                server.trim_before(stream, upto.next() if unfinished is None else min(upto.next(), unfinished))
            self._finished[stream] = upto


def _expected(begin: Offsets, end: Offsets) -> dict[str, int]:
    """How many entries each stream has in a batch, where both offsets know and nothing was lost in between."""
    expected: dict[str, int] = {}
    for stream, added in end.added.items():
        before = begin.added.get(stream)
        if before is not None and stream not in end.begins and end.lost.get(stream) == begin.lost.get(stream):
            expected[stream] = added - before
    return expected


def _exact_backlog(server: StreamServer, stream: str, after: StreamId, state: StreamState | None) -> int | None:
    if state is None:
        return 0
    following = state.exact_backlog(after)
    return server.count(stream, after, LAST) if following is None and server.counts_cheaply else following


def _baseline(server: StreamServer, stream: str, after: StreamId, state: StreamState | None) -> Known:
    """What is known of a stream where reading begins: nothing that is gone by now counts as lost."""
    if state is None:
        return Known(after, 0 if after == ZERO else None)
    following = _exact_backlog(server, stream, after, state)
    added = None if following is None or state.entries_added is None else state.entries_added - following
    return Known(after, added, state.max_deleted_id)
