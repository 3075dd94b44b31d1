"""What a task does that reads ranges of streams: their entries as record batches, and their delivery to a group.

The partition is pickled on the driver and unpickled in the worker. A worker knows nothing else of the plan.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark_streams.client.connection import Connection
from spark_streams.client.pool import borrow
from spark_streams.columns.field_check import FieldCheck
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.address import Address
from spark_streams.embedded import launcher
from spark_streams.errors import PystreamsError, error, first_of
from spark_streams.read.ranges import from_replicas
from spark_streams.read.ranges.from_replicas import PRIMARY, Preference
from spark_streams.server.entries import xrange
from spark_streams.server.entries.small_ranges import Pages
from spark_streams.server.entries.xrange import Delivery
from spark_streams.server.model import Range, StreamState
from spark_streams.server.open import open_server
from spark_streams.stream_id import LAST, ZERO, StreamId

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """Entries of `ranges`, read from `address` in pages of `page_size` entries at most.

    Those of the streams `delivers` the task delivers to `group` as it reads, to the consumers whose names begin with
    `prefix`; the others are read from where `preference` says. `fails`: fewer entries than planned are an error rather
    than a warning. `checks_fields`: see `FieldCheck`.
    """

    address: Address
    ranges: tuple[Range, ...]
    page_size: int
    group: str | None = None
    prefix: str = ""
    delivers: frozenset[str] = frozenset()
    fails: bool = True
    checks_fields: bool = False
    preference: Preference = PRIMARY

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """The entries as record batches of that schema. Raises STREAM_LOST, ENTRIES_LOST or FIELDS_MISSING."""
        launcher.check_reach(self.address)
        schema = schema.in_session()
        check = FieldCheck(schema) if self.checks_fields else None
        entries = dict.fromkeys(self.ranges, 0)
        beheaded = {part for part in self.ranges if part.head is not None}  # those whose first entry was not seen
        with borrow(self.address) as connection:
            for page, parts in self._pages(connection, schema.needed_fields()):
                at = 0
                for part, count in parts:
                    if part in beheaded and count and page.ids()[at].as_py().decode() == str(part.head):
                        beheaded.remove(part)
                    entries[part] += count
                    at += count
                if page.count:
                    origin = [(part.stream, count) for part, count in parts]
                    batch = schema.batch(page, origin if len(origin) > 1 else origin[0][0])
                    if check is not None:
                        check.see(page, batch)
                    if batch.num_rows:
                        yield batch
            problems = [*self._shortfalls(connection, entries, beheaded)]
            if problems and self.fails:
                raise first_of(dict(problems))
            for _, problem in problems:
                _log.warning("%s", problem)
        if check is not None:
            check.finish([*dict.fromkeys(part.stream for part in self.ranges)])

    def _pages(self, connection: Connection, fields: Sequence[bytes] | None) -> Pages:
        only_read = [part for part in self.ranges if part.stream not in self.delivers]
        yield from from_replicas.pages(connection, only_read, self.page_size, self.preference, fields)
        if self.group is None or not self.delivers:
            return
        states = open_server(connection).states(sorted(self.delivers), self.group)
        for part in self.ranges:
            if part.stream not in self.delivers:
                continue
            delivery = self._delivery(connection, self.group, part, states[part.stream])
            for page in xrange.pages(connection, part.stream, part.after, part.upto, self.page_size, delivery):
                yield page, [(part, page.count)]

    def _delivery(self, connection: Connection, group: str, part: Range, state: StreamState | None) -> Delivery | None:
        """How to deliver the range's entries to the group, from that state on; None if the group is gone."""
        stream = part.stream

        def position() -> StreamId | None:
            state = open_server(connection).states([stream], group)[stream]
            return None if state is None or state.group is None else state.group.last_delivered_id

        if state is None or state.group is None:
            return None
        # If the group disappears meanwhile there is nothing to deliver to; the next batch creates it again.
        at_start = state.group.last_delivered_id
        return Delivery(group, f"{self.prefix}-{part.index}", at_start, lambda: position() or LAST)

    def _shortfalls(
        self, connection: Connection, entries: Mapping[Range, int], beheaded: Collection[Range]
    ) -> Iterator[tuple[str, PystreamsError]]:
        """The streams with fewer entries than planned in a range, and why, as far as that is known to be a loss."""
        short = [part for part, found in entries.items() if part.count is None or found < part.count]
        if not short:
            return
        address = self.address
        states = open_server(connection).states([*dict.fromkeys(part.stream for part in short)], None)
        for part in short:
            stream, state, after, upto = part.stream, states[part.stream], part.after, part.upto
            if state is None or state.last_id < upto:
                if upto != ZERO:
                    found = "it does not exist any more" if state is None else f"it now ends at {state.last_id}"
                    yield stream, error("STREAM_LOST", stream=stream, address=address, offset=upto, found=found)
            elif part.count is not None or part in beheaded:
                count = (
                    "an unknown number of entries" if part.count is None else f"{part.count - entries[part]} entries"
                )
                lost = error("ENTRIES_LOST", stream=stream, address=address, after=after, upto=upto, count=count)
                yield stream, lost
