"""Declaration of options as fields of a dataclass.

    max_entries: int | None = option("maxEntriesPerTrigger", whole(1), None, "Maximum entries per micro-batch ...")

This line has all facts about an option, and is the only place with its name. The field that it declares stores the
option's value. The type checker compares the field's type with the kind and the default. Parsing, checks, error
messages and the documentation use these declarations. No option is treated specially here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, TypeVar

from streamclient.config.kinds import Kind
from streamclient.errors import error, fail
from streamwire.errors import InvalidTextError

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


def option(
    name: str,
    kind: Kind[Value],
    default: Default,
    meaning: str,
    *,
    default_text: str = "",
    aliases: tuple[str, ...] = (),
    batch_only: bool = False,
    streaming_only: bool = False,
    secret: bool = False,
) -> Value | Default:
    """Return the declaration of a dataclass field for this option; see `Option` for the arguments."""
    made = Option(name, kind, default, meaning, default_text, aliases, batch_only, streaming_only, secret)
    declared: Any = field(default=default, repr=not secret, metadata={_KEY: made})
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
