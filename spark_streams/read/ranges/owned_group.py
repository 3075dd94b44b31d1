"""The consumer group that a query owns: its start position, delivery, acknowledgement and trimming.

The group serves only observers (pending entries, lag): offsets alone determine the rows of a batch. If the query
has no group, `finish` only trims, and all other methods do nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from spark_streams.config.read import ReadOptions
from spark_streams.errors import PystreamsError, error, first_of
from spark_streams.read.query.lease import lease_name
from spark_streams.read.query.offsets import Finish, Offsets
from streamclient.config.address import Address
from streamclient.streams.counting import Entries
from streamclient.streams.states import GroupState, Range, StreamState
from streamclient.streams.stream_server import StreamServer
from streamwire.stream_id import LAST, ZERO, StreamId

#: A stream's range, its state, and the number of entries ever added before the range (None: unknown).
Batch = tuple[Range, StreamState, int | None]

#: A position in each stream, and the number of entries ever added up to it (None: unknown).
Positions = dict[str, tuple[StreamId, int | None]]

_log = logging.getLogger("spark_streams")


class OwnedGroup:
    """A query's group in each of its streams. Uses the options `group`, `consumer`, `ack` and `trimOnCommit`."""

    def __init__(self, options: ReadOptions, address: Address) -> None:
        self._options = options
        self._address = address
        # Redis replicates a group's number of read entries only when it is set explicitly, not when XREADGROUP changes
        # it. A replica that takes over would continue from an old number; a number that was never set is estimated. So
        # the number is set only if every batch sets it again, or if no replica takes over.
        self._sets_count = options.ack == "cursor" or address.kind == "single"
        self._finished: dict[str, StreamId] = {}
        self._trimmed: dict[str, StreamId] = {}
        self._delivered_from: dict[str, StreamId] = {}  # start of the last delivered batch
        self._reached: dict[str, StreamId] = {}  # positions to which the search for the batch's end moved the group
        self._last: tuple[Offsets, Finish] | None = None  # the last finished offset

    @property
    def delivers(self) -> bool:
        """Whether the entries of a batch are pending until it has finished."""
        return self._options.group is not None and self._options.ack == "commit"

    def start(
        self,
        server: StreamServer,
        begins: Mapping[str, StreamId],
        states: Mapping[str, StreamState | None],
        resumes: Collection[str],
        *,
        changes: bool = True,
    ) -> dict[str, StreamId]:
        """Create the group at `begins`, the starts of a new query, or move existing groups there.

        In the streams `resumes` an existing group is not moved. Return the positions at which these groups are resumed.
        `changes`: whether groups may be created, moved and marked. Raises GROUP_IN_USE for a group that other programs
        use.
        """
        group, options = self._options.group, self._options
        if group is None:
            return {}
        created: set[str] = set()
        if changes:
            missing = {stream: begins[stream] for stream, state in states.items() if not state or not state.group}
            created = server.groups.create(self._counted(server, missing, states), group)
            self._mark(server, created)
            # Another client may have just created the other groups.
            states = {**states, **server.states.of([each for each in missing if each not in created], group)}
        known = {stream: state for stream, state in states.items() if state and state.group and stream not in created}
        found = {stream: state.group for stream, state in known.items() if state.group}
        ours = self.check_consumers(server, found)
        moving: list[str] = []
        problems: dict[str, PystreamsError] = {}
        for stream, state in found.items():
            position, after = state.last_delivered_id, begins[stream]
            if not changes or stream in resumes or position == after:
                continue
            moving.append(stream)
            if stream not in ours and position != ZERO and not options.takeover:
                why = f"its last-delivered ID is {position}, but the query would set it to {after}"
                problems[stream] = error("GROUP_IN_USE", group=group, stream=stream, found=why)
        if problems:
            raise first_of(problems)
        if changes:
            self._mark(server, found)
        # A held lease may belong to an earlier run of this query, so the group is not moved. If another query holds the
        # lease, the first batch fails.
        held = set() if options.takeover else server.leases.held(moving, lease_name(options, shared=False))
        free = {stream: begins[stream] for stream in moving if stream not in held}
        server.groups.set_positions(self._counted(server, free, known), group)
        return self._resumed(server, {stream: state for stream, state in found.items() if stream in resumes})

    def _resumed(self, server: StreamServer, groups: Mapping[str, GroupState]) -> dict[str, StreamId]:
        """Return the positions at which groups are continued.

        If the first batch started but never committed, its entries are pending. The query starts at these entries
        again.
        """
        asked = [stream for stream, state in groups.items() if state.pending]
        pending = server.groups.first_pending_ids(asked, self._options.group or "", self._options.consumer)
        starts = {stream: state.last_delivered_id for stream, state in groups.items()}
        return starts | {stream: min(starts[stream], first.before()) for stream, first in pending.items()}

    def _counted(
        self, server: StreamServer, positions: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
    ) -> Positions:
        """Return the positions, each with the number to set in the group of entries ever added up to it."""
        added = server.entries.added(positions, states) if self._sets_count else {}
        return {stream: (after, added.get(stream)) for stream, after in positions.items()}

    def check_consumers(self, server: StreamServer, streams: Collection[str]) -> set[str]:
        """Return the streams whose group has consumers of a query with this prefix.

        Raises GROUP_IN_USE if a group has other consumers and the option groupTakeover is false. Consumers of a query
        with consume=shared count as other consumers only while that query is running.
        """
        group, options = self._options.group, self._options
        if group is None:
            return set()
        pattern = re.compile(re.escape(options.consumer) + r"-(?:[0-9]+|query)")
        left = re.compile(re.escape(options.consumer) + r"-[0-9]+-[0-9]+")
        ours: set[str] = set()
        foreign: dict[str, list[str]] = {}
        remaining: dict[str, list[str]] = {}  # consumers of a query that has ended unless it holds its lease
        for stream, consumers in server.groups.consumers(list(streams), group).items():
            names = [name.decode("utf-8", "replace") for name, _ in consumers]
            others = [name for name in names if not pattern.fullmatch(name)]
            if len(names) > len(others):
                ours.add(stream)
            unknown = [name for name in others if not left.fullmatch(name)]
            if others:
                (foreign if unknown else remaining)[stream] = unknown or others
        for stream in server.leases.held(list(remaining), lease_name(options, shared=True)):
            foreign[stream] = remaining[stream]
        if foreign and not options.takeover:
            problems: dict[str, PystreamsError] = {}
            for stream in sorted(foreign):
                names = foreign[stream]
                why = f"other consumers use it ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
                problems[stream] = error("GROUP_IN_USE", group=group, stream=stream, found=why)
            raise first_of(problems)
        return ours

    def _mark(self, server: StreamServer, streams: Collection[str]) -> None:
        """Create a consumer in the groups to mark them as created or used by a query."""
        name = f"{self._options.consumer}-query".encode()
        server.groups.create_consumers([(stream, name) for stream in streams], self._options.group or "")

    def create(self, server: StreamServer, states: Mapping[str, StreamState | None]) -> None:
        """Create the group in streams that were found while the query runs.

        Raises GROUP_IN_USE if other consumers use it.
        """
        if self._options.group is None:
            return
        existing = {stream: state for stream, state in states.items() if state is not None}
        self.check_consumers(server, [stream for stream, state in existing.items() if state.group is not None])
        missing: Positions = {stream: (ZERO, None) for stream, state in existing.items() if state.group is None}
        self._mark(server, server.groups.create(missing, self._options.group))

    def entries(
        self,
        server: StreamServer,
        states: Mapping[str, StreamState | None],
        hold: Callable[[Iterable[str]], None],
    ) -> Entries:
        """Return the entries to ask for the end of the next batch. On Redis, they deliver the batch to find its end.

        `hold` is called with streams before the group is moved in them.
        """
        if self._options.group is None or not self.delivers or server.entries.counts_cheaply:
            return server.entries
        found = server.delivery.entries(states, self._options.group, self._options.consumer, hold)
        self._reached = found.reached
        return found

    def deliver(self, server: StreamServer, batches: Sequence[Batch]) -> None:
        """Add the ranges of a batch to the group's pending list, before Spark runs the batch.

        Raises GROUP_BEHIND if the group's position in a stream is before the batch and there are entries in between.
        """
        group = self._options.group
        if group is None:
            return
        positions = self._prepare(server, group, batches)
        if self.delivers:
            server.delivery.deliver(
                [(whole, positions[whole.stream]) for whole, _, _ in batches], group, self._options.consumer
            )

    def _prepare(self, server: StreamServer, group: str, batches: Sequence[Batch]) -> dict[str, StreamId]:
        """Make sure that the group is at or after the batch's start. Returns the group's positions."""
        found: dict[str, StreamId] = {}
        missing: Positions = {}
        behind: dict[str, StreamId] = {}
        starts: Positions = {}
        for whole, state, counted in batches:
            stream, after = whole.stream, whole.after
            starts[stream] = after, counted if self._sets_count else None
            found[stream] = after if state.group is None else state.group.last_delivered_id
            if state.group is None:
                _log.warning("The group %s of %s was missing. It is recreated at %s.", group, stream, after)
                missing[stream] = starts[stream]
            elif found[stream] < after and self.delivers:  # else it is moved when Spark has written the checkpoint
                behind[stream] = found[stream]
        server.groups.create(missing, group)
        self._catch_up(server, group, behind, starts)
        found |= {stream: starts[stream][0] for stream in behind}
        self._delivered_from.update((stream, after) for stream, (after, _) in starts.items())
        return {stream: max(position, self._reached.pop(stream, ZERO)) for stream, position in found.items()}

    def _catch_up(self, server: StreamServer, group: str, positions: Mapping[str, StreamId], starts: Positions) -> None:
        """Move a group from positions that are before the batch's starts.

        The group may not have read the entries in between. If no failover explains this, raises GROUP_BEHIND, or logs a
        warning if losses are warnings.
        """
        asked = [(stream, position, 1, starts[stream][0]) for stream, position in positions.items()]
        skipped: dict[str, PystreamsError] = {}
        for (stream, position, _, after), (first, found) in zip(asked, server.entries.nths(asked), strict=True):
            if found and not self._delivery_was_lost(stream, position, after):
                skipped[stream] = error(
                    "GROUP_BEHIND", group=group, stream=stream, position=position, after=after, first=first
                )
        if skipped and self._options.fails:
            raise first_of(skipped)
        for stream in skipped:
            where = group, stream, positions[stream], starts[stream][0]
            _log.warning("The group %s of %s is moved from %s to %s: it was behind the checkpoint.", *where)
        server.groups.set_positions({stream: starts[stream] for stream in positions}, group)

    def _delivery_was_lost(self, stream: str, position: StreamId, after: StreamId) -> bool:
        """Return whether the group may be behind only because a failover lost the last batch's delivery.

        The batch is finished, and none of its entries is missing, because the stream's state would show missing
        entries.
        """
        begin = self._delivered_from.get(stream)
        return self._address.kind != "single" and begin is not None and begin <= position < after

    def finish(self, server: StreamServer, finished: Offsets, may: Finish) -> None:
        """Acknowledge everything up to the offset's position in each stream, unless `may` is "keep". If the query trims
        and `may` is "trim", trim these entries, except entries that another group has not finished.

        The first call may come after a restart and covers every stream. Later calls cover only streams whose position
        has moved.
        """
        options, group = self._options, self._options.group
        if self._last is not None and self._last[0] is finished and self._last[1] == may:
            return
        if may == "keep" or (group is None and not options.trims):
            return
        reached = {stream: upto for stream, upto in finished.streams.items() if upto != ZERO}
        moved = {stream: upto for stream, upto in reached.items() if self._finished.get(stream) != upto}
        if group is not None and moved and options.ack == "commit":
            server.delivery.acknowledge(moved, group, options.consumer)
        elif group is not None and moved and options.ack == "cursor":
            self._move_forward(server, group, moved, finished.added)
        if options.trims and may == "trim":
            trims = {stream: upto for stream, upto in reached.items() if self._trimmed.get(stream) != upto}
            unfinished = server.groups.first_unfinished_ids(list(trims))
            befores = {stream: min(upto.next(), unfinished[stream] or LAST) for stream, upto in trims.items()}
            server.streams.trim_before(befores)
            self._trimmed.update(trims)
        self._finished.update(moved)
        self._last = finished, may

    def _move_forward(
        self, server: StreamServer, group: str, uptos: Mapping[str, StreamId], added: Mapping[str, int]
    ) -> None:
        positions = {
            stream: (uptos[stream], added.get(stream))
            for stream, state in server.states.of(list(uptos), group).items()
            if state is not None and state.group and state.group.last_delivered_id < uptos[stream] <= state.last_id
        }
        server.groups.set_positions(positions, group)
