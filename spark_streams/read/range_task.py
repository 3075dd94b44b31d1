"""A partition: what one task reads, as it travels from the planner to the worker that reads it.

It must survive pickling, and hold all that the worker needs: workers get nothing else from the planner.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark_streams.client.connection import Connection, borrow
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.address import Address
from spark_streams.embedded import launcher
from spark_streams.errors import PystreamsError, error
from spark_streams.read.shared.protocol import Taker
from spark_streams.server import xrange
from spark_streams.server.model import Range
from spark_streams.server.open import open_server
from spark_streams.server.xrange import Delivery
from spark_streams.stream_id import LAST, ZERO, StreamId

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class StreamPartition(InputPartition):
    """Entries of `range`, to be read from `address`; `group` and `consumer` are set if the task is to deliver them.

    `fails`: whether it is an error if there are fewer than were planned.
    """

    address: Address
    range: Range
    page_size: int
    group: str | None = None
    consumer: str = ""
    fails: bool = True


@dataclass(frozen=True)
class SharedPartition(InputPartition):
    """What one consumer of a shared group takes."""

    address: Address
    taker: Taker


def read(partition: InputPartition, schema: ReadSchema) -> Iterator[Any]:
    """The partition's entries as record batches. Spark passes a partition of its own where there was none to plan."""
    if isinstance(partition, SharedPartition):
        yield from _read_shared(partition, schema.in_session())
    elif isinstance(partition, StreamPartition):
        yield from _read_range(partition, schema.in_session())


def _read_range(partition: StreamPartition, schema: ReadSchema) -> Iterator[Any]:
    launcher.check_reach(partition.address)
    part = partition.range
    entries = 0
    with borrow(partition.address) as connection:
        delivery = _delivery(connection, partition)
        for page in xrange.pages(connection, part.stream, part.after, part.upto, partition.page_size, delivery):
            entries += page.count
            if page.count:
                batch = schema.batch(page, part.stream)
                if batch.num_rows:
                    yield batch
        if part.count is None or entries < part.count:
            found = _short(connection, partition, entries)
            if found is not None and partition.fails:
                raise found
            if found is not None:
                _log.warning("%s", found)


def _delivery(connection: Connection, partition: StreamPartition) -> Delivery | None:
    if partition.group is None:
        return None

    def position() -> StreamId | None:
        stream = partition.range.stream
        state = open_server(connection).states([stream], partition.group)[stream]
        return None if state is None or state.group is None else state.group.last_delivered_id

    begun = position()
    if begun is None:
        return None
    # A group that is gone by then is made anew for the next batch; there is nothing to deliver to.
    return Delivery(partition.group, partition.consumer, begun, lambda: position() or LAST)


def _short(connection: Connection, partition: StreamPartition, entries: int) -> PystreamsError | None:
    """Why a partition has fewer entries than were planned; None where that is not known to be a loss."""
    part, address = partition.range, partition.address
    state = open_server(connection).states([part.stream], None)[part.stream]
    if state is None or state.last_id < part.upto:
        if part.upto == ZERO:
            return None
        found = "it does not exist any more" if state is None else f"it now ends at {state.last_id}"
        return error("STREAM_LOST", stream=part.stream, address=address, offset=part.upto, found=found)
    if part.count is None:
        return None
    count = f"{part.count - entries} entries"
    return error("ENTRIES_LOST", stream=part.stream, address=address, after=part.after, upto=part.upto, count=count)


def _read_shared(partition: SharedPartition, schema: ReadSchema) -> Iterator[Any]:
    from spark_streams.read.shared import task

    launcher.check_reach(partition.address)
    with borrow(partition.address) as connection:
        taker = replace(partition.taker, counts=schema.counts_deliveries)
        for page, deliveries, kept in task.pages(connection, taker):
            batch = schema.batch(page, taker.stream, deliveries, kept)
            if batch.num_rows:
                yield batch
