"""Streaming reads: offsets, limits, and what Spark's calls mean for the consumer group.

What Spark does, and what follows from it:

* `initialOffset` is asked several times, and again after a restart before the first batch. The answer is fixed once: in
  the consumer group, which is made at that ID, and in this object.
* `commit` of a batch comes only when the next one has been planned, so an idle stream would leave its last batch
  pending for ever. `latestOffset` comes at every trigger with the end of the last finished batch: everything up to
  there is acknowledged then.
* A batch is logged before it runs, and a logged batch is replayed from `partitions` alone: whatever was delivered or
  acknowledged before must not matter there. Rows depend on the two offsets only (see `spark_streams.fetch`).

This object lives in a planner process for as long as the query runs; another copy of it, pickled at the start, serves
`read` in the workers. Nothing but the partition passes between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spark_streams import connection as connections
from spark_streams import partition, planning
from spark_streams.address import Address
from spark_streams.connection import borrow
from spark_streams.errors import fail
from spark_streams.facts import ServerFacts, StreamState, facts_of, position_of
from spark_streams.ids import ZERO, StreamId
from spark_streams.offsets import Offsets
from spark_streams.options import ReadOptions
from spark_streams.partition import StreamPartition
from spark_streams.positions import Position
from spark_streams.schema import ReadSchema

_LATEST = Position("latest")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams in micro-batches, with or without a consumer group."""

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        self._options = options
        self._schema = schema
        self._address = address
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._acknowledged: dict[str, StreamId] = {}
        self._turn = 0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._initial is None:
            with borrow(self._address) as connection:
                facts = facts_of(connection)
                states = facts.states(self._options.streams, self._options.group)
                self._initial = Offsets({name: self._begin(facts, name, states[name]) for name in states})
        return self._initial.to_json()

    def _begin(self, facts: ServerFacts, stream: str, state: StreamState | None) -> StreamId:
        position = self._options.starting.of(stream) if self._options.starting is not None else _LATEST
        after = position.after
        if after is None:
            after = position_of(state) if position.kind == "latest" else ZERO
        group = self._options.group
        if group is None:
            return after
        held = state.group if state is not None else None
        if held is None:
            if facts.make_group(stream, group, after):
                return after
            state = facts.states([stream], group)[stream]
            held = state.group if state is not None else None
        if held is None:
            return after
        if position.kind in ("latest", "group"):
            # If the very first batch was begun and never finished, its entries are pending: it is to begin there again.
            oldest = facts.oldest_pending(stream, group, self._options.consumer) if held.pending else None
            return held.position if oldest is None else min(held.position, oldest.before())
        if held.position != after:
            facts.move_group(stream, group, after)
        return after

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_entries
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with borrow(self._address) as connection:
            states = facts_of(connection).states(self._options.streams, None)
        self._target = Offsets({stream: position_of(state) for stream, state in states.items()})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = Offsets.from_json(start)
        with borrow(self._address) as connection:
            facts = facts_of(connection)
            self._acknowledge(facts, begin)
            states = facts.states(self._options.streams, self._options.group)
            self._latest = Offsets({stream: position_of(state) for stream, state in states.items()})
            starts = {stream: begin.of(stream) for stream in states}
            ends = {stream: self._end(stream, starts[stream], state) for stream, state in states.items()}
            if isinstance(limit, ReadMaxRows):
                ends = self._limited(facts, limit.max_rows, starts, ends, states)
        return Offsets({**begin.streams, **ends}).to_json()

    def _end(self, stream: str, start: StreamId, state: StreamState | None) -> StreamId:
        """How far the stream goes now. The end of what was read before must still be there."""
        if state is None or state.last < start:
            if start == ZERO:
                return ZERO
            found = "it does not exist any more" if state is None else f"it now ends at {state.last}"
            fail("STREAM_LOST", stream=stream, address=self._address, offset=start, found=found)
        return state.last if self._target is None else max(start, min(state.last, self._target.of(stream)))

    def _limited(
        self,
        facts: ServerFacts,
        limit: int,
        starts: dict[str, StreamId],
        ends: dict[str, StreamId],
        states: dict[str, StreamState | None],
    ) -> dict[str, StreamId]:
        known = {
            stream: (0, True) if state is None or ends[stream] <= starts[stream] else state.backlog(starts[stream])
            for stream, state in states.items()
        }
        at_most = sum(
            count if sure else state.length
            for (count, sure), state in zip(known.values(), states.values(), strict=True)
            if state is not None
        )
        if at_most <= limit:
            return ends
        self._turn += 1
        backlog = {stream: count for stream, (count, _) in known.items()}
        return planning.limited(limit, starts, ends, backlog, facts.nth, self._turn)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, finish = Offsets.from_json(start), Offsets.from_json(end)
        streams = self._options.streams
        parts = planning.ranges(
            {stream: begin.of(stream) for stream in streams}, {stream: finish.of(stream) for stream in streams}
        )
        group = self._options.group
        if parts:
            with borrow(self._address) as connection:
                facts = facts_of(connection)
                states = facts.states([part.stream for part in parts], group)
                for part in parts:
                    self._check_batch(facts, part, states[part.stream])
        return [
            StreamPartition(
                self._address, part, self._options.page_size, group, f"{self._options.consumer}-{part.index}"
            )
            for part in parts
        ]

    def _check_batch(self, facts: ServerFacts, part: planning.Range, state: StreamState | None) -> None:
        """The stream must reach the batch's end, and the group must be there, and not behind the batch's start."""
        if state is None or state.last < part.upto:
            found = "it does not exist any more" if state is None else f"it now ends at {state.last}"
            fail("STREAM_LOST", stream=part.stream, address=self._address, offset=part.upto, found=found)
        group = self._options.group
        if group is None:
            return
        if state.group is None:
            facts.make_group(part.stream, group, part.after)
        elif state.group.position < part.after:
            facts.move_group(part.stream, group, part.after)

    def read(self, partition_: InputPartition) -> Iterator[Any]:
        return partition.read(partition_, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        with borrow(self._address) as connection:
            self._acknowledge(facts_of(connection), Offsets.from_json(end))

    def _acknowledge(self, facts: ServerFacts, finished: Offsets) -> None:
        group = self._options.group
        if group is None:
            return
        for stream in self._options.streams:
            upto = finished.of(stream)
            # The first call may come after a restart, so what an earlier run left pending is looked for once.
            if self._acknowledged.get(stream) != upto and upto != ZERO:
                facts.acknowledge(stream, group, self._options.consumer, upto)
                self._acknowledged[stream] = upto

    def stop(self) -> None:
        connections.close_all()
