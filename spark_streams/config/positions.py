"""Positions: where a read starts and ends, as the user says it: `earliest`, `latest`, `group`, an ID, a time, or JSON.

IDs are read as XRANGE reads them: inclusive at both ends, exclusive after `(`; an ID without a sequence number gets the
smallest one at the start of a range and the largest one at its end. Inside the connector a start is the ID *before* the
first entry, an end the ID of the last entry: this module converts. Pure.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spark_streams.config import time_zones
from streamwire.errors import InvalidTextError
from streamwire.stream_id import U64_MAX, StreamId, is_date

Kind = Literal["earliest", "latest", "group", "id"]


@dataclass(frozen=True)
class Position:
    """A position in a stream. `after`, for the kind "id": entries lie after it (start), or up to it (end).

    `time`: the time that was given in place of an ID, as text.
    """

    kind: Kind
    after: StreamId | None = None
    time: str = field(default="", compare=False)


@dataclass(frozen=True)
class Positions:
    """A position for each stream: one for all of them (`default`), or one by name."""

    default: Position | None
    each: Mapping[str, Position]

    def of(self, stream: str) -> Position:
        position = self.each.get(stream, self.default)
        if position is None:
            raise KeyError(stream)  # parsing has checked that every stream is named
        return position

    def get(self, stream: str, otherwise: Position) -> Position:
        """As `of`, for a stream that may not be named: one that a pattern finds."""
        return self.each.get(stream, self.default or otherwise)

    def kinds(self) -> set[Kind]:
        return {position.kind for position in (self.default, *self.each.values()) if position is not None}


def parse_start(text: str, streams: tuple[str, ...] | None) -> Positions:
    """Return the positions where a read starts. With `streams` JSON must name exactly these, without it (a pattern)
    any.
    """
    return _parse(text, streams, lambda one: _position(one, end=False))


def parse_end(text: str, streams: tuple[str, ...] | None) -> Positions:
    """Return the positions where a read ends; see `parse_start`."""
    return _parse(text, streams, lambda one: _position(one, end=True))


def parse_times(text: str, streams: tuple[str, ...] | None, zone: str = time_zones.UTC) -> Positions:
    """Return the positions before the first entry at or after a time, given in milliseconds since 1970 or as ISO 8601.

    A time without a zone is in `zone`.
    """
    return _parse(text, streams, lambda one: _time(one, zone))


def _parse(text: str, streams: tuple[str, ...] | None, read: Callable[[str], Position]) -> Positions:
    text = text.strip()
    if not text.startswith("{"):
        return Positions(read(text), {})
    try:
        given: dict[str, Any] = json.loads(text)
    except ValueError:
        raise InvalidTextError("it is not JSON") from None
    if streams is not None:
        unknown = sorted(set(given) - set(streams))
        missing = sorted(set(streams) - set(given))
        if unknown:
            names = f"name exactly its streams: {', '.join(streams)}"
            raise InvalidTextError(f"the query does not read {', '.join(unknown)}; {names}")
        if missing:
            raise InvalidTextError(f"it names no position for {', '.join(missing)}")
    for name, value in given.items():
        if isinstance(value, dict):
            raise InvalidTextError(f'a stream has no partitions, so write {{"{name}": ...}} with one value')
    return Positions(None, {name: read(str(value)) for name, value in given.items()})


def _time(text: str, zone: str) -> Position:
    text = text.strip()
    try:
        if is_date(text) and text.isdigit():
            raise ValueError(text)
        if text.isascii() and text.isdigit():
            milliseconds = int(text)
        else:
            moment = datetime.datetime.fromisoformat(text)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=time_zones.info(zone))
            milliseconds = -(-int(moment.timestamp() * 1_000_000) // 1000)
        if not 0 <= milliseconds <= U64_MAX:
            raise ValueError(text)
    except ValueError:
        raise InvalidTextError(
            "it must be milliseconds since 1970, an ISO 8601 time, or JSON with one of these per stream"
        ) from None
    return Position("id", StreamId(milliseconds, 0).before(), text)


def _position(text: str, *, end: bool) -> Position:
    word = text.lower()
    if word in ("earliest", "-"):
        return Position("earliest")
    if word in ("latest", "$") or (word == "+" and end):
        return Position("latest")
    if word == "group" and not end:
        return Position("group")
    exclusive = text.startswith("(")
    if is_date(text.removeprefix("(")):
        timestamp = "endingTimestamp" if end else "startingTimestamp"
        raise InvalidTextError(f"it is a date, not an ID: use {timestamp}, or an ID such as 1526919030474-0")
    try:
        stream_id = StreamId.parse(text.removeprefix("("), U64_MAX if end else 0)
    except ValueError:
        words = "'earliest' or '-', 'latest' or '+'" if end else "'earliest' or '-', 'latest' or '$', 'group'"
        raise InvalidTextError(
            f"it must be {words}, an ID such as 1526919030474-0, or JSON with one of these per stream"
        ) from None
    return Position("id", stream_id.before() if end == exclusive else stream_id)
