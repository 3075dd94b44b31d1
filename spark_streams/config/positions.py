"""Start and end positions of a read, in the user's form: `earliest`, `latest`, `group`, an ID, a time, or JSON.

IDs have the same meaning as in XRANGE: inclusive at both ends, exclusive after `(`. An ID without a sequence number
gets the smallest sequence number as a start, and the largest as an end. Inside the connector, a start is the ID
*before* the first entry, and an end is the ID of the last entry. This module converts the user's form to these IDs.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spark_streams.config import time_zones
from streamwire.errors import InvalidTextError
from streamwire.stream_id import U64_MAX, StreamId, is_date

Kind = Literal["earliest", "latest", "group", "id"]


@dataclass(frozen=True)
class Position:
    """A position in a stream. `after`, for the kind "id": the ID after which a read starts, or at which it ends."""

    kind: Kind
    after: StreamId | None = None


@dataclass(frozen=True)
class Positions:
    """Positions of streams: one position for all streams (`default`), or one for each stream (`each`)."""

    default: Position | None = None
    each: Mapping[str, Position] = field(default_factory=dict)

    def get(self, stream: str, otherwise: Position) -> Position:
        """Return the position of a stream; `otherwise` if it has none, such as a stream found by a pattern."""
        return self.each.get(stream, self.default or otherwise)

    @property
    def kinds(self) -> set[Kind]:
        """The kinds of all positions."""
        return {position.kind for position in (self.default, *self.each.values()) if position is not None}


def parse_ids(text: str, streams: Collection[str], *, end: bool = False) -> Positions:
    """Return the start positions of a read, or its end positions.

    JSON must name exactly these streams. Without streams, because a pattern finds them, JSON may name any.
    """
    return _parse(text, streams, lambda value: _position(value, end=end))


def parse_times(text: str, streams: Collection[str], zone: str = time_zones.UTC) -> Positions:
    """Return the positions before the first entry at or after a time, given in milliseconds since 1970 or as ISO 8601.

    A time without a zone is in `zone`.
    """
    return _parse(text, streams, lambda value: _time(value, zone))


def _parse(text: str, streams: Collection[str], read: Callable[[str], Position]) -> Positions:
    text = text.strip()
    if not text.startswith("{"):
        return Positions(read(text))
    try:
        given: dict[str, Any] = json.loads(text)
    except ValueError:
        raise InvalidTextError("it is not JSON") from None
    if streams:
        unknown = sorted(set(given) - set(streams))
        missing = sorted(set(streams) - set(given))
        if unknown:
            names = f"name exactly its streams: {', '.join(streams)}"
            raise InvalidTextError(f"the query does not read {', '.join(unknown)}; {names}")
        if missing:
            raise InvalidTextError(f"it names no position for {', '.join(missing)}")
    for name, value in given.items():
        if isinstance(value, dict):
            raise InvalidTextError(f'a stream has no partitions, so write {{"{name}": ...}} with a single position')
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
    return Position("id", StreamId(milliseconds, 0).before())


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
