"""Kinds of option values: parsing of texts, and formatting of values.

A parser raises `InvalidTextError` for an invalid text. Parsers do not depend on the option's name or on other options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from streamwire.errors import InvalidTextError
from streamwire.stream_id import StreamId, is_date

Value_co = TypeVar("Value_co", covariant=True)
Word = TypeVar("Word", bound=str)


@dataclass(frozen=True)
class Kind(Generic[Value_co]):
    """A kind of value. `parse` converts the user's text to a value; `show` formats a value for documents and errors."""

    parse: Callable[[str], Value_co]
    show: Callable[[Any], str] = str


def _text(text: str) -> str:
    if not text:
        raise InvalidTextError("it must not be empty")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise InvalidTextError("it must be a comma-separated list of different names")
    return names


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidTextError("it must be 'true' or 'false'")
    return word == "true"


_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1, "": 1}


def shown_duration(milliseconds: int) -> str:
    """Return a duration in the largest unit in which it is a whole number, as in `15m`."""
    unit = next(unit for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // _UNITS[unit]}{unit}" if milliseconds else "0"


def _stream_id(text: str) -> StreamId:
    try:
        if is_date(text.strip()):
            raise ValueError(text)
        return StreamId.parse(text.strip())
    except ValueError:
        raise InvalidTextError("it must be a stream ID, as in 1526919030474-0") from None


TEXT: Kind[str] = Kind(_text)
#: Any text, including an empty one.
ANY_TEXT: Kind[str] = Kind(str)
NAMES: Kind[tuple[str, ...]] = Kind(_names, ", ".join)
FLAG: Kind[bool] = Kind(_flag, lambda value: str(value).lower())
STREAM_ID: Kind[StreamId] = Kind(_stream_id)


def duration(smallest: int = 0) -> Kind[int]:
    """Return the kind of durations of at least `smallest` milliseconds; the value is in milliseconds."""

    def parse(text: str) -> int:
        found = re.fullmatch(r"([0-9]+) *([a-z]*)", text.strip().lower().replace("_", ""), re.ASCII)
        if found is None or found[2] not in _UNITS:
            raise InvalidTextError("it must be a number of milliseconds, or a number with a unit: ms, s, m, h or d")
        milliseconds = int(found[1]) * _UNITS[found[2]]
        if milliseconds < smallest:
            raise InvalidTextError(f"it must be {shown_duration(smallest)} or more")
        return milliseconds

    return Kind(parse, shown_duration)


def whole(smallest: int) -> Kind[int]:
    """Return the kind of integers of at least `smallest`."""

    def parse(text: str) -> int:
        digits = text.strip().replace("_", "")
        if not digits.isascii() or not digits.isdigit() or int(digits) < smallest:
            raise InvalidTextError(f"it must be a whole number, {smallest} or more")
        return int(digits)

    return Kind(parse)


def choice(*words: Word) -> Kind[Word]:
    """Return the kind whose values are these words. Case is ignored; the value has the spelling given here."""
    spelled = {word.lower(): word for word in words}

    def parse(text: str) -> Word:
        word = spelled.get(text.strip().lower())
        if word is None:
            raise InvalidTextError(f"it must be one of {', '.join(map(repr, words))}")
        return word

    return Kind(parse)
