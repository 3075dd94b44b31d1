"""The consumer group that a query owns: its start position, delivery, acknowledgement and trimming.

The group serves only observers (pending entries, lag): offsets alone determine the rows of a batch. If the query
has no group, `finish` only trims, and all other methods do nothing.

Deliveries may run in the background while the tasks of a batch read. The rows of a batch do not depend on them. The
batch's acknowledgement and the next batch depend on it and wait for it to finish. One thing is done at a time, in a
thread with its own connection. The thread does not use the process's connection, because a replaced connection would
look like a new server to the query.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

from spark_streams.config.read import ReadOptions
from spark_streams.errors import ServerError, fail
from spark_streams.read.query.lease import lease_name
from spark_streams.read.query.offsets import Finish, Offsets
from spark_streams.read.ranges.backlog import added_upto
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.streams import rounds
from streamclient.streams.model import Range, StreamState
from streamclient.streams.rounds import Steps
from streamclient.streams.stream_server import StreamServer, open_server
from streamclient.wire_errors import BROKEN
from streamwire.stream_id import LAST, ZERO, StreamId

_STOP_SECONDS = 2.0  # maximum wait for a page in progress at the end of a query


class Background:
    """Runs one piece of work at a time in the background, on the server at an address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._ended = threading.Event()

    def start(self, work: Callable[[StreamServer], Iterator[None]]) -> None:
        """Wait for earlier work, and then do this work in the background. It can be stopped after each iteration."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[StreamServer], Iterator[None]]) -> None:
        try:
            with closing(Connection(self._address)) as connection:
                try:
                    for _ in work(open_server(connection)):
                        if self._ended.is_set():
                            return
                except BROKEN as cause:
                    raise connection.unreachable(cause) from cause
        except Exception as failure:  # noqa: BLE001 - raised to the caller that waits
            self._failure = failure

    def wait(self) -> None:
        """Wait for the work to finish. Raises the work's failure, but only once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def give_up(self) -> None:
        """Stop the work at the end of the query, because another query may use the group next."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)


#: A stream's ranges in order, its state, and the number of entries ever added before the ranges (None: unknown).
Batch = tuple[Sequence[Range], StreamState, int | None]

#: A stream's ranges in order, and the group's position, up to which entries were already delivered.
Delivered = tuple[Sequence[Range], StreamId]

_log = logging.getLogger("spark_streams")
_MANY = 10_000  # more entries than this are delivered in the background
_ATTEMPTS = 3  # attempts to deliver in the background, because a failover may undo a delivery


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
        self._left_at: dict[str, StreamId] = {}  # furthest position to which this query can have moved the group
        self._background = Background(address)
        self._cleared: set[str] = set()  # streams in which marks of an earlier run were removed
        self._may_mark = True
        self._last: tuple[Offsets, Finish] | None = None  # the last finished offset

    def start(
        self,
        server: StreamServer,
        stream: str,
        state: StreamState | None,
        after: StreamId,
        *,
        resumes: bool,
        changes: bool = True,
    ) -> Steps[StreamId]:
        """Return the start of a new query that is to begin at `after`, and move an existing group to this position.

        `resumes`: an existing group is not moved, and the query begins at the group's position. `changes`: whether the
        group may be moved and marked. Raises GROUP_IN_USE for a group that other programs use.
        """
        group = self._options.group
        if group is None:
            return after
        if changes and (state is None or state.group is None):  # another client may have just created it
            state = yield from rounds.state(stream, group)
        found = state.group if state is not None else None
        if found is None:
            return after
        is_ours = yield from self.check_consumers(stream)
        moves = changes and not resumes and self._options.ack != "none" and found.last_delivered_id != after
        if moves and not is_ours and found.last_delivered_id != ZERO and not self._options.takeover:
            position = f"its last-delivered ID is {found.last_delivered_id}"
            fail("GROUP_IN_USE", group=group, stream=stream, found=f"{position}, but the query would set it to {after}")
        if changes:
            yield from self._mark(stream, group)
        if resumes:
            # If the first batch started but never committed, its entries are pending. The query starts at these entries
            # again.
            pending = None
            if found.pending:
                pending = yield from rounds.first_pending_id(stream, group, self._options.consumer)
            return found.last_delivered_id if pending is None else min(found.last_delivered_id, pending.before())
        # A held lease may belong to an earlier run of this query, so the group is not moved. If another query holds the
        # lease, the first batch fails.
        name = lease_name(self._options, shared=False)
        if moves and (self._options.takeover or not (yield from rounds.is_held(stream, name))):
            read = yield from self._count(server, stream, after, state)
            yield from rounds.set_position(stream, group, after, read)
        return after

    def start_new(
        self, server: StreamServer, begins: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
    ) -> set[str]:
        """Create the group, at these IDs, in the streams that do not have it. Return those streams."""
        group = self._options.group
        if group is None:
            return set()

        def create(stream: str, state: StreamState | None) -> Steps[bool]:
            read = yield from self._count(server, stream, begins[stream], state)
            created = yield from rounds.create_group(stream, group, begins[stream], read)
            if created:
                yield from self._mark(stream, group)
            return created

        missing = {stream: state for stream, state in states.items() if state is None or state.group is None}
        created = rounds.for_each(server, {stream: create(stream, state) for stream, state in missing.items()})
        return {stream for stream, is_new in created.items() if is_new}

    def _count(
        self, server: StreamServer, stream: str, after: StreamId, state: StreamState | None
    ) -> Steps[int | None]:
        """Return the number of entries ever added up to `after`, to set in the group; None to set no number."""
        if not self._sets_count:
            return None
        return (yield from added_upto(server, stream, after, state))

    def check_consumers(self, stream: str) -> Steps[bool]:
        """Return whether the group has consumers of a query with this prefix.

        Raises GROUP_IN_USE if the group has other consumers and the option groupTakeover is false. Consumers of a query
        with consume=shared count as other consumers only while that query is running.
        """
        group, options = self._options.group, self._options
        if group is None or options.ack == "none":
            return False
        ours = re.compile(re.escape(options.consumer) + r"-(?:[0-9]+|query|until-[0-9]+-[0-9]+)")
        left = re.compile(re.escape(options.consumer) + r"-[0-9]+-[0-9]+")
        names = [name.decode("utf-8", "replace") for name, _ in (yield from rounds.consumers(stream, group))]
        others = [name for name in names if not ours.fullmatch(name)]
        foreign = [name for name in others if not left.fullmatch(name)]
        if others and not foreign and (yield from rounds.is_held(stream, lease_name(options, shared=True))):
            foreign = others
        if foreign and not options.takeover:
            found = f"other consumers use it ({', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''})"
            fail("GROUP_IN_USE", group=group, stream=stream, found=found)
        return len(names) > len(others)

    def _mark(self, stream: str, group: str) -> Steps[None]:
        """Create a consumer in the group to mark the group as created or used by a query."""
        if self._options.ack != "none":
            yield from rounds.create_consumer(stream, group, f"{self._options.consumer}-query")

    def create(self, stream: str, state: StreamState | None) -> Steps[None]:
        """Create the group in a stream that was found while the query runs.

        Raises GROUP_IN_USE if other consumers use it.
        """
        group = self._options.group
        if state is None or group is None:
            return
        if state.group is not None:
            yield from self.check_consumers(stream)
        elif (yield from rounds.create_group(stream, group, ZERO)):
            yield from self._mark(stream, group)

    def deliver(self, server: StreamServer, batches: Iterable[Batch]) -> None:
        """Add the ranges of a batch to the group's pending list, before Spark runs the batch.

        Raises GROUP_BEHIND if the group's position in a stream is before the batch and there are entries in between.

        Large deliveries run in the background if the server lacks the engine's commands: then a delivery takes as long
        as reading.
        """
        group = self._options.group
        if group is None or self._options.ack == "none":
            return
        self._background.wait()
        batches = list(batches)
        positions = rounds.for_each(server, {batch[0][0].stream: self._prepare(group, *batch) for batch in batches})
        if self._options.ack != "commit":
            return
        wanted = {parts[0].stream: (parts, positions[parts[0].stream]) for parts, _, _ in batches}
        sizes = {parts[0].stream: _most(parts, state) for parts, state, _ in batches}
        marked = self._mark_large(server, group, wanted, sizes)
        now = [batch for stream, batch in wanted.items() if stream not in marked]
        if now:
            server.delivery.deliver(now, group, self._options.consumer)
        if marked:
            later = {stream: batch for stream, batch in wanted.items() if stream in marked}
            self._background.start(partial(self._deliver_pages, group, later))

    def _mark_large(
        self, server: StreamServer, group: str, wanted: Mapping[str, Delivered], sizes: Mapping[str, int]
    ) -> set[str]:
        """Return the streams to deliver in the background if the delivery is large, and leave a mark in each.

        The mark is a consumer whose name contains the end of the delivery. The mark exists until all entries are
        delivered. If the driver is killed before that and the batch is finished nevertheless, the next run can tell
        from the mark why the group is behind.
        """
        if server.entries.counts_cheaply or not self._may_mark:
            return set()
        large = {stream: parts for stream, (parts, position) in wanted.items() if position < parts[-1].upto}
        if sum(sizes[stream] for stream in large) <= _MANY:
            return set()
        server.group_reads.check_permission(next(iter(large.values()))[0], group, self._options.consumer)
        marking = {stream: self._mark_until(stream, group, parts[-1].upto) for stream, parts in large.items()}
        try:
            marked = rounds.for_each(server, marking)
        except ServerError as refusal:
            if refusal.condition != "NOT_PERMITTED":
                raise
            _log.info(
                "Entries are delivered to the group %s before the tasks start instead of in the background: %s",
                group,
                refusal,
            )
            self._may_mark = False
            return set()
        return {stream for stream, is_marked in marked.items() if is_marked}

    def _mark_until(self, stream: str, group: str, upto: StreamId) -> Steps[bool]:
        """Leave the mark of a delivery.

        Returns False if the server cannot create the mark. The first call for a stream removes the marks of earlier
        runs. It also deletes a consumer with the new mark's name, whether or not it exists. So a missing permission to
        remove marks is noticed before the mark is created.
        """
        mark = self._mark_name(upto)
        if stream not in self._cleared:
            names = [name.decode("utf-8", "replace") for name, _ in (yield from rounds.consumers(stream, group))]
            for name in {mark, *(name for name in names if name.startswith(f"{self._options.consumer}-until-"))}:
                yield from rounds.delete_consumer(stream, group, name)
            self._cleared.add(stream)
        return (yield from rounds.create_consumer(stream, group, mark))

    def _mark_name(self, upto: StreamId) -> str:
        return f"{self._options.consumer}-until-{upto}"

    def _deliver_pages(self, group: str, wanted: Mapping[str, Delivered], server: StreamServer) -> Iterator[None]:
        """Deliver page by page; remove the marks of completed streams."""
        left = wanted
        for _ in range(_ATTEMPTS):
            yield from server.group_reads.pages(left.values(), group, self._options.consumer)
            left = self._undelivered(server, group, wanted)
            if not left:
                break
        done = [(stream, parts[-1].upto) for stream, (parts, _) in wanted.items() if stream not in left]
        server.groups.delete_consumers([(stream, self._mark_name(upto).encode()) for stream, upto in done], group)

    def _undelivered(self, server: StreamServer, group: str, wanted: Mapping[str, Delivered]) -> dict[str, Delivered]:
        """Return the streams with undelivered entries, each with its ranges and the group's position.

        Deleted entries do not count as undelivered.
        """
        behind: dict[str, Delivered] = {}
        for stream, state in server.states.of(list(wanted), group).items():
            parts, _ = wanted[stream]
            if state is not None and state.group is not None and state.group.last_delivered_id < parts[-1].upto:
                behind[stream] = parts, state.group.last_delivered_id
        ends = [(stream, position, 1, parts[-1].upto) for stream, (parts, position) in behind.items()]
        found = server.entries.nths(ends)
        return {stream: behind[stream] for (stream, *_), (_, number) in zip(ends, found, strict=True) if number}

    @property
    def delivers(self) -> bool:
        """Whether the entries of a batch are pending until it has finished."""
        return self._options.group is not None and self._options.ack == "commit"

    def stop(self) -> None:
        """Stop delivering, at the end of the query."""
        self._background.give_up()

    def _prepare(self, group: str, parts: Sequence[Range], state: StreamState, counted: int | None) -> Steps[StreamId]:
        """Make sure that the group is at or after the batch's start. Returns the group's position."""
        after, stream = parts[0].after, parts[0].stream
        added = counted if self._sets_count else None
        position = after
        if state.group is None:
            _log.warning("The group %s of %s was missing. It is recreated at %s.", group, stream, after)
            yield from rounds.create_group(stream, group, after, added)
        elif state.group.last_delivered_id < after and not self.delivers:
            position = state.group.last_delivered_id  # it is moved when Spark has written the batch to the checkpoint
        elif state.group.last_delivered_id < after:
            yield from self._catch_up(group, stream, state.group.last_delivered_id, after, added)
        else:
            position = state.group.last_delivered_id
            yield from self._check_ahead(group, stream, position, max(after, parts[-1].upto))
        self._delivered_from[stream] = after
        self._left_at[stream] = max(position, parts[-1].upto)
        return position

    def _check_ahead(self, group: str, stream: str, position: StreamId, upto: StreamId) -> Steps[None]:
        """Log a warning if another client has moved the group.

        Rows do not depend on the group, but skipped entries are never pending. Nothing is logged if an earlier run that
        was killed may have delivered entries of a batch that Spark has not logged.
        """
        expected = self._left_at.get(stream, upto)
        if position <= expected:
            return
        if stream not in self._left_at and (yield from self._has_pending(group, stream)):
            return
        _log.warning(
            "The group %s of %s was moved from %s to %s; all entries are still read.", group, stream, expected, position
        )

    def _has_pending(self, group: str, stream: str) -> Steps[bool]:
        """Return whether the query, including its earlier runs, has pending entries."""
        return (yield from rounds.first_pending_id(stream, group, self._options.consumer)) is not None

    def _catch_up(self, group: str, stream: str, position: StreamId, after: StreamId, added: int | None) -> Steps[None]:
        """Move a group that is before the batch's start.

        The group may not have read the entries in between. If neither a failover nor a killed driver explains this,
        raises GROUP_BEHIND, or logs a warning if losses are warnings.
        """
        first, found = yield from rounds.nth(stream, position, 1, after)
        if found and not self._delivery_was_lost(stream, position, after):
            mark = self._mark_name(after)
            if mark.encode() in {name for name, _ in (yield from rounds.consumers(stream, group))}:
                yield from rounds.delete_consumer(stream, group, mark)
                reason = "the last batch is finished, but the driver ended before it had delivered all of its entries"
                _log.warning("The group %s of %s is moved from %s to %s: %s.", group, stream, position, after, reason)
            elif self._options.fails:
                fail("GROUP_BEHIND", group=group, stream=stream, position=position, after=after, first=first)
            else:
                reason = "it was behind the checkpoint"
                _log.warning("The group %s of %s is moved from %s to %s: %s.", group, stream, position, after, reason)
        yield from rounds.set_position(stream, group, after, added)

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
        if may == "keep" or (not options.trims and (group is None or options.ack == "none")):
            return
        self._background.wait()
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


def _most(parts: Sequence[Range], state: StreamState) -> int:
    """Return the number of entries in a stream's ranges, or the largest possible number if they were not counted."""
    return sum(state.length if part.count is None else part.count for part in parts)
