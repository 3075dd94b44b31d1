"""Consuming a shared group: batches are numbered, and the tasks take what the group has for them.

Owns the planner's half: when there is something to take, how much each partition may take, and what is acknowledged.
The tasks' half is `spark_streams.read.shared.task`; what both agree on is in `spark_streams.read.shared.protocol`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import redis

from spark_streams.client.connection import Command, Connection, borrow
from spark_streams.config.address import Address
from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.read import loss
from spark_streams.read.loss import Known
from spark_streams.read.offsets import Offsets, SharedBatch
from spark_streams.read.range_task import SharedPartition
from spark_streams.read.shared import protocol
from spark_streams.read.shared.protocol import Taker
from spark_streams.server.api import StreamServer
from spark_streams.server.model import StreamState, last_id_of
from spark_streams.server.open import open_server
from spark_streams.stream_id import LAST, ZERO, StreamId

_log = logging.getLogger("spark_streams")
_LATEST = Position("latest")
_MOST = 100_000  # entries that one task takes, where no option says otherwise: they come in one reply
_LOOKED_AT = 10_000  # pending entries that are looked at to find some to take over


class SharedSource:
    """One query's part in the groups of its streams."""

    def __init__(self, options: ReadOptions, address: Address) -> None:
        self._options = options
        self._address = address
        self._target: dict[str, StreamId] | None = None
        self._latest: Offsets | None = None
        self._finished = -1
        self._turn = 0
        self._noted: dict[str, StreamId] = {}  # losses that were warned of

    @property
    def _group(self) -> str:
        return self._options.group or ""

    @property
    def latest(self) -> Offsets | None:
        return self._latest

    def _streams(self, server: StreamServer) -> list[str]:
        pattern = self._options.pattern
        return list(self._options.streams) if pattern is None else server.find_streams(pattern)

    def initial(self) -> Offsets:
        """Make the groups that are missing, and count on from whatever batch an earlier life of the query reached."""
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(self._streams(server), self._group)
            since = 0
            for stream, state in states.items():
                if state is None or state.group is None:
                    starting = self._options.starting
                    position = _LATEST if starting is None else starting.get(stream, _LATEST)
                    start = last_id_of(state) if position.kind in ("latest", "group") else ZERO
                    server.create_group(stream, self._group, start if position.after is None else position.after)
                since = max(since, self._reached(connection, server, stream))
            return Offsets({}, shared=SharedBatch(since, since))

    def _reached(self, connection: Connection, server: StreamServer, stream: str) -> int:
        """The largest number of a batch that the group or the ledger knows."""
        done = connection.command("HGET", self._ledger(stream), protocol.DONE)
        consumers = server.consumers(stream, self._group)
        batches = [protocol.batch_of(name, self._options.consumer) for name, _ in consumers]
        return max([int(done or 0), *(batch for batch in batches if batch is not None)])

    def _ledger(self, stream: str) -> bytes:
        return protocol.ledger(stream, self._group, self._options.consumer)

    def prepare_available_now(self) -> None:
        with borrow(self._address) as connection:
            server = open_server(connection)
            states = server.states(self._streams(server), self._group)
        self._target = {stream: last_id_of(state) for stream, state in states.items()}

    def next(self, begin: Offsets, *, unlimited: bool) -> Offsets:
        """The next batch, if the group has anything for it; `begin` itself otherwise."""
        last = self._shared(begin)
        with borrow(self._address) as connection:
            server = open_server(connection)
            self._finish(connection, server, last)
            states = server.states(self._streams(server), self._group)
            self._latest = Offsets({stream: last_id_of(state) for stream, state in states.items()})
            lag: dict[str, int] = {}
            claims: dict[str, int] = {}
            for stream, state in states.items():
                group = self._present(server, stream, state)
                self._look_for_loss(server, stream, state)
                lag[stream] = 0 if group is None or state is None else self._lag(server, stream, state)
                found = 0 if state is None else self._claimable(connection, server, stream, last)
                if found:
                    claims[stream] = found
        batch = SharedBatch(last.number + 1, last.since, self._take(lag, claims, unlimited=unlimited), claims)
        if not any(map(sum, batch.take.values())) and not claims:
            return begin
        return Offsets({}, shared=batch)

    def _shared(self, offset: Offsets) -> SharedBatch:
        if offset.shared is None:
            fail("OFFSET_MALFORMED", offset=offset.to_json())
        return offset.shared

    def _present(self, server: StreamServer, stream: str, state: StreamState | None) -> Any:
        if state is not None and state.group is not None:
            return state.group
        if self._options.pattern is None and self._finished > 0:
            if self._options.fails:
                fail("GROUP_LOST", stream=stream, address=self._address, group=self._group)
            _log.warning("The group %s of the stream %s was lost; it is made anew.", self._group, stream)
        server.create_group(stream, self._group, ZERO)
        return server.states([stream], self._group)[stream]

    def _look_for_loss(self, server: StreamServer, stream: str, state: StreamState | None) -> None:
        """See whether entries went before the group was given them."""
        if state is None or loss.look_group(state) is None:
            return
        # The stream and the group were asked one after the other: only what they say at one moment counts.
        state = server.state_in_transaction(stream, self._group)
        finding = None if state is None else loss.look_group(state)
        if state is None or state.group is None or finding is None or self._noted.get(stream) == finding.upto:
            return
        loss.report(finding, stream, Known(state.group.last_delivered_id), self._address, fails=self._options.fails)
        if finding.upto is not None:
            self._noted[stream] = finding.upto

    def _lag(self, server: StreamServer, stream: str, state: StreamState) -> int:
        """How many entries the group was not given yet, about."""
        position = state.group.last_delivered_id if state.group is not None else ZERO
        end = state.last_id if self._target is None else min(state.last_id, self._target.get(stream, ZERO))
        if position >= end:
            return 0
        if server.counts_cheaply:
            return server.count(stream, position, end)
        if state.group is not None and state.group.lag is not None:
            return state.group.lag
        return state.backlog(position)[0] if server.nth(stream, position, 1, LAST)[1] else 0

    def _claimable(self, connection: Connection, server: StreamServer, stream: str, last: SharedBatch) -> int:
        """How many pending entries of others may be taken over now."""
        idle = self._options.claim_idle
        count = 0
        for name, pending in server.consumers(stream, self._group):
            batch = protocol.batch_of(name, self._options.consumer)
            if not pending or (batch is not None and batch > last.since):
                continue
            command: Command = ("XPENDING", stream, self._group, "-", "+", _LOOKED_AT, name)
            if batch is None:
                if idle is None:
                    continue
                command = ("XPENDING", stream, self._group, "IDLE", idle, "-", "+", _LOOKED_AT, name)
            count += len(connection.command(*command))
        return count

    def _take(self, lag: dict[str, int], claims: dict[str, int], *, unlimited: bool) -> dict[str, tuple[int, ...]]:
        from spark_streams.read import planning

        options = self._options
        limit = None if unlimited else options.max_entries
        if limit is not None:
            self._turn += 1
            left = max(0, limit - sum(claims.values()))
            lag = planning.shares(left, lag, self._turn) if left else {}
        most = options.max_per_partition or _MOST
        parts = planning.parts(lag, options.min_partitions, options.max_per_partition)
        take = {stream: protocol.shares(count, parts.get(stream, 1), most) for stream, count in lag.items() if count}
        return {**dict.fromkeys(claims, (0,)), **take}

    def plan(self, begin: Offsets, end: Offsets) -> list[SharedPartition]:
        """One partition for each consumer of the batch."""
        del begin
        batch = self._shared(end)
        options = self._options
        planned: list[SharedPartition] = []
        for stream, counts in sorted(batch.take.items()):
            for index, count in enumerate(counts):
                taker = Taker(
                    stream,
                    self._group,
                    options.consumer,
                    batch.number,
                    index,
                    batch.since,
                    count,
                    claim_idle=options.claim_idle,
                    max_deliveries=options.max_deliveries,
                    dead_letters=options.dead_letters,
                    page_size=options.page_size,
                )
                if index == 0:
                    taker = replace(taker, claim=batch.claim.get(stream, 0))
                planned.append(SharedPartition(self._address, taker))
        return planned

    def commit(self, end: Offsets) -> None:
        with borrow(self._address) as connection:
            self._finish(connection, open_server(connection), self._shared(end))

    def _finish(self, connection: Connection, server: StreamServer, finished: SharedBatch) -> None:
        """Acknowledge what the consumers of finished batches have, remove them, and note it in the ledger."""
        if self._finished >= finished.number:
            return
        streams: Iterable[str] = {*finished.take, *self._streams(server)}
        for stream in streams:
            if finished.number > finished.since:
                for name, pending in server.consumers(stream, self._group):
                    batch = protocol.batch_of(name, self._options.consumer)
                    if batch is None or batch > finished.number or (batch <= finished.since and pending):
                        continue
                    if pending:
                        server.acknowledge_consumer(stream, self._group, name, LAST)
                    server.delete_consumer(stream, self._group, name)
                self._note(connection, stream, finished.number)
            if self._options.trims:
                unfinished = server.first_unfinished_id(stream)
                if unfinished is not None:
                    server.trim_before(stream, unfinished)
        self._finished = finished.number

    def _note(self, connection: Connection, stream: str, batch: int) -> None:
        key = self._ledger(stream)
        lines = [
            line for line in connection.command("HKEYS", key) if b"-" in line and int(line.split(b"-")[0]) <= batch
        ]
        commands: list[Command] = [("HSET", key, protocol.DONE, batch)]
        if lines:
            commands.append(("HDEL", key, *lines))
        # The mark goes first: whatever happens in between, a partition's line is never missing where the mark is old.
        for reply in connection.pipeline(commands):
            if isinstance(reply, redis.ResponseError):
                fail("SERVER_REFUSED", address=self._address, command="HSET", reason=reply)
