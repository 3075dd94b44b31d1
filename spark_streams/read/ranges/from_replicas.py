"""Reading ranges from replicas: the same rows as from the primary, at the cost of another server.

A replica is asked first whether the stream there has reached the range's end, by its last-generated ID. If it has not,
does not answer or breaks off, the primary gives the rest. So a replica that is behind costs a question, never an entry.
Groups are none of its business: what is delivered is read from the primary.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spark_streams.client import replicas
from spark_streams.client.connection import Connection
from spark_streams.client.pool import borrow
from spark_streams.codec.reply import Page
from spark_streams.config.address import Address, Endpoint
from spark_streams.errors import ServerError, StreamError
from spark_streams.server import small_ranges
from spark_streams.server.model import Range, last_id_of
from spark_streams.server.open import open_server
from spark_streams.server.small_ranges import Pages
from spark_streams.stream_id import StreamId

_log = logging.getLogger("spark_streams")
ZONE = "PYSTREAMS_AVAILABILITY_ZONE"
"""Environment variable of an executor."""


@dataclass(frozen=True)
class Preference:
    """Which servers tasks read ranges from. `zone`: the one preferred with `az`; else the executor's environment's."""

    kind: Literal["primary", "preferReplica", "az"] = "primary"
    zone: str | None = None

    @property
    def own_zone(self) -> str:
        return self.zone or os.environ.get(ZONE, "")


PRIMARY = Preference()


def pages(connection: Connection, ranges: Sequence[Range], most: int, preference: Preference) -> Pages:
    """As `small_ranges.pages`, from replicas where they have the entries, else from the connection's primary."""
    if preference.kind == "primary" or not ranges:
        yield from small_ranges.pages(connection, ranges, most)
        return
    nodes: dict[Endpoint | None, list[Range]] = {}
    for part in ranges:
        nodes.setdefault(connection.node_of(part.stream), []).append(part)
    left: list[Range] = []
    planned: dict[Range, Range] = {}  # of the rests of ranges that a replica did not finish
    for node, of_node in nodes.items():
        for candidate in replicas.of_node(connection, node):
            rest = yield from _from(candidate, of_node, most, preference, planned)
            if rest is not None:
                left += rest
                break
        else:
            left += of_node
    for page, parts in small_ranges.pages(connection, left, most):
        yield page, [(planned.get(part, part), count) for part, count in parts]


def _from(
    candidate: Address, ranges: Sequence[Range], most: int, preference: Preference, planned: dict[Range, Range]
) -> Generator[tuple[Page, Sequence[tuple[Range, int]]], None, list[Range] | None]:
    """What a replica has of the ranges. Returns what is left of them; None if the replica is not to be read at all."""
    fresh: list[Range] = []
    reached: dict[Range, StreamId] = {}
    try:
        with borrow(candidate) as replica:
            if preference.kind == "az" and replicas.zone_of(replica) != preference.own_zone:
                return None
            states = open_server(replica).states([*dict.fromkeys(part.stream for part in ranges)], None)
            fresh = [part for part in ranges if last_id_of(states[part.stream]) >= part.upto]
            if not fresh:
                return None
            for page, parts in small_ranges.pages(replica, fresh, most):
                at = 0
                for part, count in parts:
                    at += count
                    if count:
                        reached[part] = StreamId.parse(page.ids()[at - 1].as_py())
                yield page, parts
    except (ServerError, StreamError) as problem:
        _log.warning("A replica is not read: %s", problem)
        if not fresh:
            return None
        rests = [replace(part, after=reached.get(part, part.after)) for part in fresh]
        planned.update(zip(rests, fresh, strict=True))
        return [*(part for part in ranges if part not in fresh), *rests]
    return [part for part in ranges if part not in fresh]
