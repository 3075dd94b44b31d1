"""Reading ranges from replicas: the same rows as from the primary, with the load on other servers.

The driver records the replication offset of each primary when the batch is planned. A task asks a replica before and
after reading whether it has reached that offset in the same history of writes. A replica that has not reached it before
reading, or does not reply, is skipped. If a replica fails later, or no replica is left, the primary sends the remaining
entries. So a lagging replica costs a request, but never an entry. Groups are not affected: entries that must be
delivered are read from the primary.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spark_streams.errors import ServerError, StreamError
from streamclient import replicas
from streamclient.codec.reply import Page
from streamclient.config.address import Address, Endpoint
from streamclient.connection import Connection
from streamclient.pool import borrow
from streamclient.replicas import Mark
from streamclient.streams.model import Range
from streamclient.streams.pages import Pages, pages_of
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
