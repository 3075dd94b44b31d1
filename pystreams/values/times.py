"""Times and durations: milliseconds internally, ISO 8601 and `3m 20s` for users."""

from __future__ import annotations

import datetime
import re

from pystreams.errors import fail
from streamwire.stream_id import is_date

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
