"""What an option is, and how the texts of options are read. Knows none of them by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from spark_streams.errors import fail

Scope = Literal["read", "write"]
Parser = Callable[["Option", str], Any]


@dataclass(frozen=True)
class Option:
    """One option: `default` is the text that stands for its absence ("" where it has none)."""

    name: str
    scopes: tuple[Scope, ...]
    default: str
    meaning: str
    parse: Parser


def text(option: Option, text: str) -> str:
    if not text:
        fail("INVALID_OPTION", option=option.name, value=text, expected="it must not be empty")
    return text


def names(option: Option, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        fail("INVALID_OPTION", option=option.name, value=text, expected="it must be a comma list of different names")
    return names


def whole(smallest: int) -> Parser:
    def parse(option: Option, text: str) -> int:
        digits = text.strip().replace("_", "")
        if not digits.isascii() or not digits.isdigit() or int(digits) < smallest:
            expected = f"it must be a whole number, {smallest} or more"
            fail("INVALID_OPTION", option=option.name, value=text, expected=expected)
        return int(digits)

    return parse


def flag(option: Option, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        fail("INVALID_OPTION", option=option.name, value=text, expected="it must be 'true' or 'false'")
    return word == "true"


def choice(*words: str) -> Parser:
    def parse(option: Option, text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            expected = f"it must be one of {', '.join(repr(word) for word in words)}"
            fail("INVALID_OPTION", option=option.name, value=text, expected=expected)
        return word

    return parse


_UNITS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration(option: Option, text: str) -> int:
    """Milliseconds, from a number of them or from one with a unit, as in 500ms, 30s, 15m or 2h."""
    found = re.fullmatch(r"([0-9]+) *([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS:
        expected = "it must be a number of milliseconds, or one with a unit: ms, s, m, h or d"
        fail("INVALID_OPTION", option=option.name, value=text, expected=expected)
    return int(found[1]) * _UNITS[found[2]]
