"""What a task does that reads a range of one stream: its entries as record batches, and their delivery to a group.

The partition is pickled on the driver and unpickled in the worker. A worker knows nothing else of the plan.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark_streams.client.connection import Connection
from spark_streams.client.pool import borrow
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.address import Address
from spark_streams.embedded import launcher
from spark_streams.errors import PystreamsError, error
from spark_streams.server import xrange
from spark_streams.server.model import Range
from spark_streams.server.open import open_server
from spark_streams.server.xrange import Delivery
from spark_streams.stream_id import LAST, ZERO, StreamId

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """Entries of `range`, read from `address` in pages of `page_size` entries at most.

    With `group`, the task delivers them to its `consumer` as it reads. `fails`: fewer entries than planned are an
    error rather than a warning.
    """

    address: Address
    range: Range
    page_size: int
    group: str | None = None
    consumer: str = ""
    fails: bool = True

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """The entries as record batches of that schema. Raises STREAM_LOST or ENTRIES_LOST."""
        launcher.check_reach(self.address)
        schema = schema.in_session()
        part = self.range
        entries = 0
        with borrow(self.address) as connection:
            delivery = self._delivery(connection)
            for page in xrange.pages(connection, part.stream, part.after, part.upto, self.page_size, delivery):
                entries += page.count
                if page.count:
                    batch = schema.batch(page, part.stream)
                    if batch.num_rows:
                        yield batch
            if part.count is None or entries < part.count:
                problem = self._shortfall(connection, entries)
                if problem is not None and self.fails:
                    raise problem
                if problem is not None:
                    _log.warning("%s", problem)

    def _delivery(self, connection: Connection) -> Delivery | None:
        """How to deliver the entries to the group; None if that is not to be done, or the group is gone."""
        if self.group is None:
            return None
        group, stream = self.group, self.range.stream

        def position() -> StreamId | None:
            state = open_server(connection).states([stream], group)[stream]
            return None if state is None or state.group is None else state.group.last_delivered_id

        at_start = position()
        if at_start is None:
            return None
        # If the group disappears meanwhile there is nothing to deliver to; the next batch creates it again.
        return Delivery(group, self.consumer, at_start, lambda: position() or LAST)

    def _shortfall(self, connection: Connection, entries: int) -> PystreamsError | None:
        """Why there are fewer entries than planned; None if that is not known to be a loss."""
        part, address = self.range, self.address
        state = open_server(connection).states([part.stream], None)[part.stream]
        if state is None or state.last_id < part.upto:
            if part.upto == ZERO:
                return None
            found = "it does not exist any more" if state is None else f"it now ends at {state.last_id}"
            return error("STREAM_LOST", stream=part.stream, address=address, offset=part.upto, found=found)
        if part.count is None:
            return None
        count = f"{part.count - entries} entries"
        after, upto = part.after, part.upto
        return error("ENTRIES_LOST", stream=part.stream, address=address, after=after, upto=upto, count=count)
