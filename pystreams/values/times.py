"""Times, durations, and positions in a stream.

Times are milliseconds internally, and ISO 8601 and `3m 20s` for users. Users write a position as start, end, an ID, a
time, a time ago, or a signed number of entries. It is parsed without the stream; `pystreams.streams.entries` finds the
corresponding ID in a stream.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Literal

from pystreams.errors import fail
from streamwire.stream_id import StreamId, is_date

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")
_LONGEST_MS = 100 * 365 * 86_400_000  # a hundred years: clocks and sleeps overflow beyond that
_LATEST_MS = 253_402_300_799_999  # the last millisecond of the year 9999


def is_duration(text: str) -> bool:
    """Return whether the text is a duration such as `90s`, `1h30m` or `250ms`."""
    return _DURATION.fullmatch(text) is not None


def duration(text: str, name: str) -> int:
    """Return a duration in milliseconds. A bare number is in seconds. Raises INVALID_VALUE."""
    given = f"{text}s" if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text) else text
    milliseconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(given))
    if not is_duration(given) or milliseconds > _LONGEST_MS:
        expected = "it must be a duration such as 90s, 15m, 1h30m or 7d, of at most a hundred years"
        fail("INVALID_VALUE", name=name, value=text, expected=expected)
    return round(milliseconds)


def moment(text: str) -> int | None:
    """Return an ISO 8601 time in milliseconds since 1970, or None for other strings.

    Times without a zone are UTC. A year or a month alone means its first moment.
    """
    if not is_date(text) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*", text) is None:
        return None
    try:
        at = datetime.datetime.fromisoformat(text + {4: "-01-01", 7: "-01"}.get(len(text), ""))
        return round((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def iso(milliseconds: int) -> str | None:
    """Return milliseconds since 1970 as an ISO 8601 time in UTC; None after the year 9999."""
    if milliseconds > _LATEST_MS:
        return None
    at = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(milliseconds: float | None) -> str:
    """Return a duration in milliseconds as text in its two largest units, or `-` for None."""
    if milliseconds is None:
        return "-"
    if milliseconds < 0:
        return "0s"
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f}s"
    seconds = round(milliseconds / 1000)
    for size, unit, smaller, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size}{unit}{f' {rest}{small}' if rest else ''}"
    return f"{seconds}s"


EXPECTED = (
    "it must be start, end, an ID such as 1526919030474-0, '(' and an ID for the entry after it, "
    "a time (2024-06-01T12:00 or 15m for fifteen minutes ago), "
    "or a number of entries with its sign ({signs})"
)


@dataclass(frozen=True)
class Position:
    """Parsed position. `id`: the ID, or the smallest ID of a time, for the kind "id".

    `ago`: age in milliseconds, for "ago". `entries`: signed number of entries, for "entries"; the caller decides at
    which entry the counting starts.
    """

    kind: Literal["start", "end", "id", "ago", "entries"]
    id: StreamId | None = None
    ago: int = 0
    entries: int = 0


def position(text: str, name: str, *, signs: str = "-10") -> Position:
    """Return the parsed position. Raises INVALID_VALUE.

    `signs`: examples of numbers of entries for the error. Positive numbers are valid only if one example has a `+`.
    """
    word = text.strip().lower()
    if word in ("start", "earliest", "-"):
        return Position("start")
    if word in ("end", "latest", "$", "+"):
        return Position("end")
    if re.fullmatch(r"[+-][0-9]{1,18}", word) and ("+" in signs or word[0] == "-"):
        return Position("entries", entries=int(word))
    if is_duration(word.removeprefix("-")):
        return Position("ago", ago=duration(word.removeprefix("-"), name))
    at = moment(text.strip())
    if at is not None and at >= 0:
        return Position("id", StreamId(at, 0))
    try:
        if is_date(word.removeprefix("(")):
            raise ValueError(word)
        given = StreamId.parse(word.removeprefix("("))
        return Position("id", given.next() if word.startswith("(") else given)
    except ValueError:
        return fail("INVALID_VALUE", name=name, value=text, expected=EXPECTED.format(signs=signs))
