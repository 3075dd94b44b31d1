"""A partition: one range of one stream, as it travels from the planner to the worker that reads it.

It must survive pickling, and hold all that the worker needs: workers get nothing else from the planner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark_streams import embedded, fetch
from spark_streams.address import Address
from spark_streams.connection import borrow
from spark_streams.fetch import Delivery
from spark_streams.ids import StreamId
from spark_streams.planning import Range
from spark_streams.schema import ReadSchema


@dataclass(frozen=True)
class StreamPartition(InputPartition):
    """Entries of `range`, to be read from `address`; `group` and `consumer` are set if they are to be delivered."""

    address: Address
    range: Range
    page_size: int
    group: str | None = None
    consumer: str = ""


def read(partition: InputPartition, schema: ReadSchema) -> Iterator[Any]:
    """The partition's entries as record batches. Spark passes a partition of its own where there was none to plan."""
    if not isinstance(partition, StreamPartition):
        return
    embedded.check_reach(partition.address)
    part = partition.range
    with borrow(partition.address) as connection:
        delivery = None
        if partition.group is not None:
            # Imported here: facts read ranges through `fetch`, as this module does.
            from spark_streams.facts import facts_of

            state = facts_of(connection).states([part.stream], partition.group)[part.stream]
            if state is not None and state.group is not None:
                position: StreamId = state.group.position
                delivery = Delivery(partition.group, partition.consumer, position)
        for page in fetch.pages(connection, part.stream, part.after, part.upto, partition.page_size, delivery):
            if page.count:
                yield schema.batch(page, part.stream)
