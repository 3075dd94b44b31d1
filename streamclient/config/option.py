"""Declaration of options as fields of a dataclass.

    max_entries: int | None = option("maxEntriesPerTrigger", whole(1), None, "Maximum entries per micro-batch ...")

This line has all facts about an option, and is the only place with its name. The field that it declares stores the
option's value. The type checker compares the field's type with the kind and the default. Parsing, checks, error
messages and the documentation use these declarations. No option is treated specially here.

A kind parses and formats values. Its parser raises `InvalidTextError` for an invalid text. Parsers do not depend on the
option's name or on other options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Generic, NoReturn, TypeVar

from streamclient.errors import error, fail
from streamwire.errors import InvalidTextError

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


TEXT: Kind[str] = Kind(_text)
NAMES: Kind[tuple[str, ...]] = Kind(_names, ", ".join)
FLAG: Kind[bool] = Kind(_flag, lambda value: str(value).lower())


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


Value = TypeVar("Value")
Default = TypeVar("Default")

_KEY = "option"
_SECRET = "..."  # noqa: S105 - shown in place of a secret value


@dataclass(frozen=True)
class Option:
    """One option. `default_text` documents a default that depends on more than the option itself.

    `aliases`: its other names. `batch_only`: refused in streaming reads and writes unless it has its default value;
    `streaming_only` is the reverse. `secret`: the value is never shown.
    """

    name: str
    kind: Kind[Any]
    default: Any
    meaning: str
    default_text: str = ""
    aliases: tuple[str, ...] = ()
    batch_only: bool = False
    streaming_only: bool = False
    secret: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def check_use(self, value: Any, name: str, noun: str, *, streaming: bool | None) -> None:
        """Raise INVALID_OPTION for a batch-only option in a streaming read or write, or the reverse.

        `name`: name under which the option was given. `noun`: "reads" or "writes". `streaming`: None if unknown.
        """
        wrong = self.streaming_only if streaming is False else self.batch_only and bool(streaming)
        if wrong and value != self.default:
            here, there = ("streaming", "batch") if streaming else ("batch", "streaming")
            expected = f"it applies only to {there} {noun}, not to {here} {noun}: remove it"
            fail("INVALID_OPTION", option=name, value=self.show(value), expected=expected)

    def parse(self, text: str, name: str = "") -> Any:
        """Return the value of a text that was given under `name`, one of the option's names."""
        return parsed(name or self.name, self.kind.parse, text, secret=self.secret)

    def show(self, value: Any) -> str:
        return _SECRET if self.secret else self.kind.show(value)

    def shown_default(self) -> str:
        """Return the default as text for the documentation; empty if there is no default."""
        return self.default_text or ("" if self.default in (None, ()) else self.kind.show(self.default))


def option(name: str, kind: Kind[Value], default: Default, meaning: str, **further: Any) -> Value | Default:
    """Return the declaration of a dataclass field for this option; see `Option` for the arguments."""
    made = Option(name, kind, default, meaning, **further)
    declared: Any = field(default=default, repr=not made.secret, metadata={_KEY: made})
    return declared  # type: ignore[no-any-return]  # `dataclass` replaces it with a value of this type


def options_of(section: type[Any]) -> dict[str, Option]:
    """Return the options of a dataclass, inherited ones included, by the names of their fields."""
    return {each.name: each.metadata[_KEY] for each in fields(section) if _KEY in each.metadata}


def name_of(options: object, field: str) -> str:
    """Return the name of the option whose value this field stores."""
    return options_of(type(options))[field].name


def parsed(name: str, parse: Callable[[str], Value], text: str, *, secret: bool = False) -> Value:
    """Return the value of a text that was given as `name`. Raises INVALID_OPTION if `parse` refuses it."""
    try:
        return parse(text)
    except InvalidTextError as refused:
        shown = _SECRET if secret else text if refused.shown is None else refused.shown
        raise error("INVALID_OPTION", option=name, value=shown, expected=refused.expected) from refused


def refuse(options: object, name: str, expected: str) -> NoReturn:
    """Raise INVALID_OPTION about the option in the field `name`."""
    refused = options_of(type(options))[name]
    fail("INVALID_OPTION", option=refused.name, value=refused.show(getattr(options, name)), expected=expected)


def check_exclusive(options: object, *names: str) -> None:
    """Raise CONFLICTING_OPTIONS if more than one of these fields differs from its default."""
    table = options_of(type(options))
    given = [table[name].name for name in names if getattr(options, name) != table[name].default]
    if len(given) > 1:
        fail("CONFLICTING_OPTIONS", option=given[0], other=given[1])


def conflict(options: object, name: str, other: str) -> NoReturn:
    """Raise CONFLICTING_OPTIONS: the option in the field `name` excludes the value that `other` has."""
    table = options_of(type(options))
    value = table[other].show(getattr(options, other))
    fail("CONFLICTING_OPTIONS", option=table[name].name, other=f"{table[other].name}={value}")
