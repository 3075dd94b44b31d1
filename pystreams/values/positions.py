"""Positions in a stream as users write them: start, end, an ID, a time, a time ago, or a signed number of entries.

A position is parsed without the stream. `pystreams.streams.entries` finds the corresponding ID in a stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pystreams.errors import fail
from pystreams.values import times
from streamwire.stream_id import StreamId, is_date

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


def parse(text: str, name: str, *, signs: str = "-10") -> Position:
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
    if times.is_duration(word.removeprefix("-")):
        return Position("ago", ago=times.duration(word.removeprefix("-"), name))
    at = times.moment(text.strip())
    if at is not None and at >= 0:
        return Position("id", StreamId(at, 0))
    try:
        if is_date(word.removeprefix("(")):
            raise ValueError(word)
        given = StreamId.parse(word.removeprefix("("))
        return Position("id", given.next() if word.startswith("(") else given)
    except ValueError:
        return fail("INVALID_VALUE", name=name, value=text, expected=EXPECTED.format(signs=signs))
