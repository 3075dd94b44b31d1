"""Tasks that read ranges of streams as record batches.

The partition is pickled on the driver and unpickled in the worker, which has no other facts of the plan.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_streams.columns.read_schema import FieldCheck, ReadSchema
from spark_streams.embedded import drivers
from spark_streams.errors import PystreamsError, first_of
from spark_streams.read.query.loss import Baseline, Known
from spark_streams.read.query.partition import QueryPartition, report_malformed
from spark_streams.read.query.planning import Read, find_missing
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.pool import borrow
from streamclient.streams.pages import pages_of
from streamclient.streams.states import Range, StreamState
from streamclient.streams.stream_server import open_server
from streamwire.stream_id import StreamId

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class RangePartition(QueryPartition):
    """Entries of `ranges`, read from `address` in pages of at most `page_size` entries.

    `fails`: whether lost entries are an error rather than a warning. `checks_fields`: see `FieldCheck`. `known`: facts
    of the streams when the ranges were planned.
    """

    address: Address
    ranges: tuple[Range, ...]
    page_size: int
    fails: bool = True
    checks_fields: bool = False
    known: tuple[tuple[str, Known], ...] = ()

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """Yield the entries as record batches of that schema.

        Raises STREAM_LOST and ENTRIES_LOST, and the errors of `ReadSchema.batch` and `FieldCheck`.
        """
        drivers.check_reach(self.address)
        check = FieldCheck(schema) if self.checks_fields else None
        counts: Counter[str] = Counter()
        progress = {part: Read() for part in self.ranges}
        with borrow(self.address) as connection:
            fields = schema.needed_fields()
            for page, parts in pages_of(connection, self.ranges, self.page_size, fields):
                at = 0
                ids = page.ids() if any(part.count is None for part, _ in parts) else None
                for part, count in parts:
                    progress[part].entries += count
                    at += count
                    if ids is not None and part.count is None and count:
                        read_state = partial(_state, connection, part.stream)
                        progress[part].follow(partial(_id, ids), at - count, at - 1, read_state)
                if page.count:
                    origin = [(part.stream, count) for part, count in parts]
                    of_page = origin if len(origin) > 1 else origin[0][0]
                    for part_of_page, batch in schema.batches(page, of_page, counts=counts):
                        if check is not None:
                            check.see(part_of_page, batch)
                        if batch.num_rows:
                            yield batch
            problems = [*self._losses(connection, progress)]
            if problems and self.fails:
                raise first_of(dict(problems))
            for _, problem in problems:
                _log.warning("%s", problem)
            report_malformed(connection, [*dict.fromkeys(part.stream for part in self.ranges)], counts)
        if check is not None:
            check.finish([*dict.fromkeys(part.stream for part in self.ranges)])

    def _losses(self, connection: Connection, progress: Mapping[Range, Read]) -> Iterator[tuple[str, PystreamsError]]:
        """Yield each stream that has lost entries of a range, with the error."""
        known = dict(self.known)
        states = open_server(connection).states.of([*dict.fromkeys(part.stream for part in progress)], None)
        for part, found in progress.items():
            stream = part.stream
            loss = find_missing(part, known.get(stream, Known(part.upto)), states[stream], found)
            if loss is not None:
                after = part.upto if loss.recreated else part.after
                yield stream, loss.error(stream, Baseline(after), self.address)


def _id(ids: Any, at: int) -> StreamId:
    return StreamId.parse(ids[at].as_py())


def _state(connection: Connection, stream: str) -> StreamState | None:
    return open_server(connection).states.of([stream], None)[stream]


def known_of(parts: Sequence[Range], known: Mapping[str, Known]) -> tuple[tuple[str, Known], ...]:
    """Return the known facts of the streams in these ranges, for a partition."""
    return tuple((stream, known[stream]) for stream in dict.fromkeys(part.stream for part in parts))
