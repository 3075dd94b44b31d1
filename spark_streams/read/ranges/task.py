"""Tasks that read ranges of streams as record batches, from the primary or from replicas.

The partition is pickled on the driver and unpickled in the worker, which has no other facts of the plan.

A replica sends the same rows as the primary. The driver records the replication offset of each primary when the batch
is planned. A task asks a replica before and after reading whether it has reached that offset in the same history of
writes. A replica that has not reached it before reading, or does not reply, is skipped. If a replica fails later, or no
replica is left, the primary sends the remaining entries. So a lagging replica costs a request, but never an entry.
Groups are not affected: entries that must be delivered are read from the primary.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from spark_streams.columns.read_schema import FieldCheck, ReadSchema
from spark_streams.embedded import drivers
from spark_streams.errors import PystreamsError, ServerError, StreamError, first_of
from spark_streams.read.query.loss import Baseline, Known
from spark_streams.read.query.partition import QueryPartition, report_malformed
from spark_streams.read.query.planning import Read, find_missing
from streamclient import replicas
from streamclient.codec.reply import Page
from streamclient.config.address import Address, Endpoint
from streamclient.connection import Connection
from streamclient.pool import borrow
from streamclient.replicas import Mark
from streamclient.streams.pages import Pages, pages_of
from streamclient.streams.states import Range, StreamState
from streamclient.streams.stream_server import open_server
from streamwire.stream_id import StreamId

_log = logging.getLogger("spark_streams")
#: Environment variable of an executor with its availability zone.
ZONE = "PYSTREAMS_AVAILABILITY_ZONE"


@dataclass(frozen=True)
class Preference:
    """Choice of servers from which tasks read ranges.

    `zone`: the zone whose replicas are read with `az`; if empty, the zone in the executor's environment. `marks`:
    replication offsets of the primaries when the batch was planned. If a primary has no mark, its replicas are not
    read.
    """

    kind: Literal["primary", "preferReplica", "az"] = "primary"
    zone: str | None = None
    marks: tuple[tuple[Endpoint | None, Mark], ...] = ()

    @property
    def own_zone(self) -> str:
        return self.zone or os.environ.get(ZONE, "")

    def marked(self, connection: Connection, streams: Iterable[str]) -> Preference:
        """Return the preference with the current offsets of these streams' primaries. Raises NO_REPLICAS_TOLD."""
        if self.kind == "primary":
            return self
        return replace(self, marks=replicas.marks(connection, dict.fromkeys(map(connection.node_of, streams))))


PRIMARY = Preference()


def pages(
    connection: Connection,
    ranges: Sequence[Range],
    most: int,
    preference: Preference,
    fields: Sequence[bytes] | None = None,
) -> Pages:
    """Yield pages like `pages_of`, from replicas that have the entries, otherwise from the primary."""
    if preference.kind == "primary" or not ranges or (preference.kind == "az" and not preference.own_zone):
        yield from pages_of(connection, ranges, most, fields)
        return
    nodes: dict[Endpoint | None, list[Range]] = {}
    for part in ranges:
        nodes.setdefault(connection.node_of(part.stream), []).append(part)
    left: list[Range] = []
    planned: dict[Range, Range] = {}  # the planned range of each rest that a replica did not send
    marks = dict(preference.marks)
    for node, of_node in nodes.items():
        for candidate in replicas.of_node(connection, node) if node in marks else ():
            rest = yield from _from(candidate, of_node, most, preference, marks[node], fields)
            if rest is not None:
                planned.update(zip(rest, of_node, strict=False))
                left += rest
                break
        else:
            left += of_node
    for page, parts in pages_of(connection, left, most, fields):
        yield page, [(planned.get(part, part), count) for part, count in parts]


def _from(
    candidate: Address,
    ranges: Sequence[Range],
    most: int,
    preference: Preference,
    mark: Mark,
    fields: Sequence[bytes] | None,
) -> Generator[tuple[Page, Sequence[tuple[Range, int]]], None, list[Range] | None]:
    """Yield the pages of a replica. Returns the rest of each range; None if the replica must not be read at all.

    The rest is an empty list if the replica has sent everything.
    """
    begun = False
    reached: dict[Range, StreamId] = {}
    try:
        with borrow(candidate) as replica:
            if preference.kind == "az" and replicas.zone_of(replica) != preference.own_zone:
                return None
            if not replicas.has_reached(replica, mark):
                return None
            begun = True
            for page, parts in pages_of(replica, ranges, most, fields):
                at = 0
                for part, count in parts:
                    at += count
                    if count:
                        last = page.last_id() if at == page.count else page.ids()[at - 1].as_py()
                        reached[part] = StreamId.parse(last)
                yield page, parts
            # If the replica lost its data or followed another primary while it was read, it may have omitted entries.
            if replicas.has_reached(replica, mark):
                return []
    except (ServerError, StreamError) as problem:
        _log.warning("A replica cannot be read: %s", problem)
        if problem.condition == "SERVER_UNREACHABLE":
            replicas.exclude(candidate)
        if not begun:
            return None
    return [replace(part, after=reached.get(part, part.after)) for part in ranges]


@dataclass(frozen=True)
class RangePartition(QueryPartition):
    """Entries of `ranges`, read from `address` in pages of at most `page_size` entries.

    They are read according to `preference`. `fails`: whether lost entries are an error rather
    than a warning. `checks_fields`: see `FieldCheck`. `known`: facts of the streams when the ranges were planned.
    """

    address: Address
    ranges: tuple[Range, ...]
    page_size: int
    fails: bool = True
    checks_fields: bool = False
    preference: Preference = PRIMARY
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
            for page, parts in pages(connection, self.ranges, self.page_size, self.preference, fields):
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
