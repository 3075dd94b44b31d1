"""The consumer group that a query owns: where the query starts in it, delivery, acknowledgement and trimming.

The group is bookkeeping for others to look at (pending entries, lag): which rows a batch has is decided by offsets
alone. Every method does nothing where the query has no group.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from spark_streams.config.address import Address
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.read.query.lease import lease_name
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.ranges.backlog import added_upto
from spark_streams.server.api import StreamServer
from spark_streams.server.model import Range, StreamState
from spark_streams.stream_id import LAST, ZERO, StreamId

Batch = tuple[Sequence[Range], StreamState, int | None]
"""A stream's ranges in order, its state, and how many entries were ever added before them (None: unknown)."""

_log = logging.getLogger("spark_streams")


class OwnedGroup:
    """A query's group in each of its streams, by the options `group`, `consumer`, `ack` and `trimOnCommit`."""

    def __init__(self, options: ReadOptions, address: Address) -> None:
        self._options = options
        self._address = address
        # Redis does not replicate how many entries a group has read by XREADGROUP, only what is set: a replica that
        # takes over would go on from a number of long ago. Without one it estimates.
        self._tells_count = options.ack == "cursor" or address.kind == "single"
        self._finished: dict[str, StreamId] = {}
        self._trimmed: dict[str, StreamId] = {}
        self._delivered_from: dict[str, StreamId] = {}  # where the batch that was delivered last begins
        self._left_at: dict[str, StreamId] = {}  # the furthest where this query can have left the group

    def start(
        self, server: StreamServer, stream: str, state: StreamState | None, after: StreamId, *, resumes: bool
    ) -> StreamId:
        """Where a new query begins that is to begin at `after`; the group is created or moved there.

        `resumes`: an existing group is not moved, and the query begins where it is. Raises GROUP_IN_USE for a group
        that other programs use.
        """
        group = self._options.group
        if group is None:
            return after
        found = state.group if state is not None else None
        if found is None:
            if self.start_new(server, {stream: after}, {stream: state}):
                return after
            state = server.states([stream], group)[stream]
            found = state.group if state is not None else None
        if found is None:
            return after
        own = self.check_consumers(server, stream)
        moves = not resumes and self._options.ack != "none" and found.last_delivered_id != after
        if moves and not own and found.last_delivered_id != ZERO and not self._options.takeover:
            position = f"its last-delivered ID is {found.last_delivered_id}"
            fail("GROUP_IN_USE", group=group, stream=stream, found=f"{position}, where it would be set to {after}")
        self._mark(server, [stream])
        if resumes:
            # If the first batch started but never committed, its entries are pending: begin there again.
            pending = server.first_pending_id(stream, group, self._options.consumer) if found.pending else None
            return found.last_delivered_id if pending is None else min(found.last_delivered_id, pending.before())
        # A query that has the group may be this one, before a restart; if not, this one is refused its first batch.
        if moves and (self._options.takeover or not server.is_held(stream, lease_name(self._options, shared=False))):
            server.set_group_positions({stream: (after, self._count(server, stream, after, state))}, group)
        return after

    def start_new(
        self, server: StreamServer, begins: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
    ) -> set[str]:
        """Create the group, at these IDs, in the streams that do not have it. Returns where that was done."""
        group = self._options.group
        if group is None:
            return set()
        missing = {stream: state for stream, state in states.items() if state is None or state.group is None}
        wanted = {
            stream: (begins[stream], self._count(server, stream, begins[stream], state))
            for stream, state in missing.items()
        }
        created = server.create_groups(wanted, group)
        self._mark(server, created)
        return created

    def _count(self, server: StreamServer, stream: str, after: StreamId, state: StreamState | None) -> int | None:
        """How many entries were ever added up to `after`, for the group to know; None if it is not to be told."""
        return added_upto(server, stream, after, state) if self._tells_count else None

    def check_consumers(self, server: StreamServer, stream: str) -> bool:
        """Whether the group has consumers of a query with the same prefix. GROUP_IN_USE if it has others.

        Those that a query with consume=shared has left are no others, unless that query runs.
        """
        group, options = self._options.group, self._options
        if group is None or options.ack == "none":
            return False
        ours = re.compile(re.escape(options.consumer) + r"-(?:[0-9]+|query)")
        left = re.compile(re.escape(options.consumer) + r"-[0-9]+-[0-9]+")
        names = [name.decode("utf-8", "replace") for name, _ in server.consumers(stream, group)]
        others = [name for name in names if not ours.fullmatch(name)]
        strangers = [name for name in others if not left.fullmatch(name)]
        if others and not strangers and server.is_held(stream, lease_name(options, shared=True)):
            strangers = others
        if strangers and not options.takeover:
            found = f"other consumers use it ({', '.join(strangers[:3])}{', ...' if len(strangers) > 3 else ''})"
            fail("GROUP_IN_USE", group=group, stream=stream, found=found)
        return len(names) > len(others)

    def _mark(self, server: StreamServer, streams: Collection[str]) -> None:
        """Leave a consumer in the group of these streams that says that a query has made or taken it."""
        if self._options.group is not None and self._options.ack != "none":
            server.create_consumer(streams, self._options.group, f"{self._options.consumer}-query")

    def create(self, server: StreamServer, stream: str, state: StreamState | None) -> None:
        """Create the group in a stream that was found while the query runs. GROUP_IN_USE if others use it there."""
        if state is None or self._options.group is None:
            return
        if state.group is not None:
            self.check_consumers(server, stream)
        elif server.create_group(stream, self._options.group, ZERO):
            self._mark(server, [stream])

    def deliver(self, server: StreamServer, batches: Iterable[Batch], alone: Collection[str]) -> frozenset[str]:
        """Add the ranges of a batch to the group's pending list. Returns the streams whose task is to do it instead.

        `alone`: streams with one range, which has a task of its own. Raises GROUP_BEHIND if the group's position in a
        stream lies before the batch, with entries in between.
        """
        group = self._options.group
        if group is None or self._options.ack == "none":
            return frozenset()
        positions: list[tuple[Sequence[Range], StreamId]] = []
        for parts, state, counted in batches:
            after, stream = parts[0].after, parts[0].stream
            added = counted if self._tells_count else None
            position = after
            if state.group is None:
                _log.warning("The group %s of %s was gone; it is created again at %s.", group, stream, after)
                server.create_group(stream, group, after, added)
            elif state.group.last_delivered_id < after:
                self._catch_up(server, group, stream, state.group.last_delivered_id, after, added)
            else:
                position = state.group.last_delivered_id
                self._check_ahead(stream, position, max(after, self._left_at.get(stream, parts[-1].upto)))
            self._delivered_from[stream] = after
            self._left_at[stream] = max(position, parts[-1].upto)
            positions.append((parts, position))
        if self._options.ack != "commit":
            return frozenset()
        return server.deliver(positions, group, self._options.consumer, alone)

    def _check_ahead(self, stream: str, position: StreamId, expected: StreamId) -> None:
        """Say that somebody has moved the group. Rows do not depend on it, but what it has passed is never pending."""
        if position > expected:
            group = self._options.group
            _log.warning("The group %s of %s was moved from %s to %s; all is read.", group, stream, expected, position)

    def _catch_up(
        self, server: StreamServer, group: str, stream: str, position: StreamId, after: StreamId, added: int | None
    ) -> None:
        """Move a group that is behind the batch's start; an error if it has not read entries in between."""
        first, found = server.nth(stream, position, 1, after)
        if found and not self._delivery_was_lost(stream, position, after):
            if self._options.fails:
                fail("GROUP_BEHIND", group=group, stream=stream, position=position, after=after, first=first)
            _log.warning("The group %s of %s was behind %s; it was moved there.", group, stream, after)
        server.set_group_positions({stream: (after, added)}, group)

    def _delivery_was_lost(self, stream: str, position: StreamId, after: StreamId) -> bool:
        """Whether the group may be behind only because a failover lost the last batch's delivery.

        That batch is finished and none of its entries is missing, or the stream's state would have shown it.
        """
        begin = self._delivered_from.get(stream)
        return self._address.kind != "single" and begin is not None and begin <= position < after

    def finish(self, server: StreamServer, finished: Offsets, *, durable: bool | None) -> None:
        """Acknowledge what is finished, up to the offset's position in each stream, and trim it if the query trims.

        It is trimmed only if the offset is `durable` (no restart asks for anything before it), and acknowledged unless
        it is known not to be: other queries trim what this group has acknowledged.

        The first call may come after a restart and covers every stream; later ones only those that have moved.
        """
        options, group = self._options, self._options.group
        if durable is False or (not options.trims and (group is None or options.ack == "none")):
            return
        reached = {stream: upto for stream, upto in finished.streams.items() if upto != ZERO}
        moved = {stream: upto for stream, upto in reached.items() if self._finished.get(stream) != upto}
        if group is not None and moved and options.ack == "commit":
            server.acknowledge(moved, group, options.consumer)
        elif group is not None and moved and options.ack == "cursor":
            self._move_forward(server, group, moved, finished.added)
        if options.trims and durable:
            trims = {stream: upto for stream, upto in reached.items() if self._trimmed.get(stream) != upto}
            unfinished = server.first_unfinished_ids(list(trims))
            server.trim_before({stream: min(upto.next(), unfinished[stream] or LAST) for stream, upto in trims.items()})
            self._trimmed.update(trims)
        self._finished.update(moved)

    def _move_forward(
        self, server: StreamServer, group: str, uptos: Mapping[str, StreamId], added: Mapping[str, int]
    ) -> None:
        positions = {
            stream: (uptos[stream], added.get(stream))
            for stream, state in server.states(list(uptos), group).items()
            if state is not None and state.group and state.group.last_delivered_id < uptos[stream] <= state.last_id
        }
        server.set_group_positions(positions, group)
