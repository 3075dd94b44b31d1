"""Where to start and where to end, as a user says it: `earliest`, `latest`, `group`, an ID, or JSON per stream.

IDs are taken as XRANGE takes them: inclusive at both ends, `(` before one excludes it, and one without a sequence
number is completed with the smallest one at the start of a range and the largest at its end. Inside the connector a
position is the last ID *before* a range, or the last one in it; this module turns the one into the other. Pure.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from spark_streams.config import time_zones
from spark_streams.errors import error, fail
from spark_streams.stream_id import LARGEST_MS, LARGEST_SEQ, StreamId

Kind = Literal["earliest", "latest", "group", "id"]


@dataclass(frozen=True)
class Position:
    """A place in a stream: `kind`, and for an ID the position after which (start) or up to which (end) entries lie."""

    kind: Kind
    after: StreamId | None = None


@dataclass(frozen=True)
class Positions:
    """A position for every stream: one for all, or one for each."""

    default: Position | None
    each: Mapping[str, Position]

    def of(self, stream: str) -> Position:
        position = self.each.get(stream, self.default)
        if position is None:
            raise KeyError(stream)  # `parse` has checked that every stream is named
        return position

    def get(self, stream: str, otherwise: Position) -> Position:
        """As `of`, for streams that may not be named: those that a pattern finds."""
        return self.each.get(stream, self.default or otherwise)

    def kinds(self) -> set[Kind]:
        return {position.kind for position in (self.default, *self.each.values()) if position is not None}


def parse(option: str, text: str, streams: tuple[str, ...] | None, *, end: bool = False) -> Positions:
    """The positions that the option's text says; `end` for one that ends a range.

    Without `streams`, where a pattern finds them, any may be named and none must be.
    """
    return _parse(option, text, streams, lambda one: _position(option, one, end))


def parse_times(option: str, text: str, streams: tuple[str, ...] | None, zone: str = time_zones.UTC) -> Positions:
    """The positions of a time, of both ends: in milliseconds since 1970, or as ISO 8601 says it (else in `zone`)."""
    return _parse(option, text, streams, lambda one: _time(option, one, zone))


def _parse(option: str, text: str, streams: tuple[str, ...] | None, read: Callable[[str], Position]) -> Positions:
    text = text.strip()
    if not text.startswith("{"):
        return Positions(read(text), {})
    try:
        said = json.loads(text)
    except ValueError as cause:
        raise error("INVALID_OPTION", option=option, value=text, expected="it is not JSON") from cause
    if streams is None:
        return Positions(None, {name: read(str(value)) for name, value in said.items()})
    unknown = sorted(set(said) - set(streams))
    missing = sorted(set(streams) - set(said))
    if unknown:
        fail("INVALID_OPTION", option=option, value=text, expected=f"the query does not read {', '.join(unknown)}")
    if missing:
        fail("INVALID_OPTION", option=option, value=text, expected=f"it names no position for {', '.join(missing)}")
    return Positions(None, {name: read(str(value)) for name, value in said.items()})


def _time(option: str, text: str, zone: str) -> Position:
    """The position before the first entry of that time or later."""
    text = text.strip()
    try:
        if text.isascii() and text.isdigit():
            milliseconds = int(text)
        else:
            moment = datetime.datetime.fromisoformat(text)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=time_zones.info(zone))
            milliseconds = -(-int(moment.timestamp() * 1_000_000) // 1000)
        if not 0 <= milliseconds <= LARGEST_MS:
            raise ValueError(text)
    except ValueError as cause:
        expected = "expected are milliseconds since 1970, an ISO 8601 time, or JSON with one of these per stream"
        raise error("INVALID_OPTION", option=option, value=text, expected=expected) from cause
    return Position("id", StreamId(milliseconds, 0).before())


def _position(option: str, text: str, end: bool) -> Position:
    word = text.lower()
    if word == "earliest":
        return Position("earliest")
    if word == "latest":
        return Position("latest")
    if word == "group" and not end:
        return Position("group")
    exclusive = text.startswith("(")
    try:
        stream_id = StreamId.parse(text.removeprefix("("), LARGEST_SEQ if end else 0)
    except ValueError as cause:
        expected = (
            "expected is 'earliest', 'latest', an ID such as 1526919030474-0, or JSON with one of these per stream"
        )
        if not end:
            expected = expected.replace("an ID", "'group', an ID")
        raise error("INVALID_OPTION", option=option, value=text, expected=expected) from cause
    return Position("id", stream_id.before() if end == exclusive else stream_id)
