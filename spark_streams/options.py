"""Options: one table from which they are parsed, checked and documented.

`TABLE` is the only list of names. `read_options` and `write_options` turn Spark's map, whose names are in whatever
case, into frozen dataclasses; nobody else sees the map. An option that is unknown, or not for this scope, is refused
with the nearest name that is. Knows no server; the address is only parsed here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from spark_streams import address, positions
from spark_streams.address import Address
from spark_streams.errors import fail
from spark_streams.positions import Positions

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


def _text(option: Option, text: str) -> str:
    if not text:
        fail("INVALID_OPTION", option=option.name, value=text, expected="it must not be empty")
    return text


def _names(option: Option, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        fail("INVALID_OPTION", option=option.name, value=text, expected="it must be a comma list of different names")
    return names


def _whole(smallest: int) -> Parser:
    def parse(option: Option, text: str) -> int:
        digits = text.strip().replace("_", "")
        if not digits.isascii() or not digits.isdigit() or int(digits) < smallest:
            expected = f"it must be a whole number, {smallest} or more"
            fail("INVALID_OPTION", option=option.name, value=text, expected=expected)
        return int(digits)

    return parse


def _flag(option: Option, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        fail("INVALID_OPTION", option=option.name, value=text, expected="it must be 'true' or 'false'")
    return word == "true"


def _choice(*words: str) -> Parser:
    def parse(option: Option, text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            expected = f"it must be one of {', '.join(repr(word) for word in words)}"
            fail("INVALID_OPTION", option=option.name, value=text, expected=expected)
        return word

    return parse


_BOTH: tuple[Scope, ...] = ("read", "write")
_READ: tuple[Scope, ...] = ("read",)
_WRITE: tuple[Scope, ...] = ("write",)

TABLE: tuple[Option, ...] = (
    Option(
        "url",
        _BOTH,
        "",
        "The server: redis://, rediss:// (TLS) or unix://. Without it the environment variable PYSTREAMS_URL; "
        "without that the embedded engine.",
        _text,
    ),
    Option("stream", _BOTH, "", "The stream's name, taken as it is.", _text),
    Option("streams", _READ, "", "A comma list of streams to read together.", _names),
    Option(
        "group",
        _READ,
        "",
        "The consumer group in which this query keeps its position: entries are pending while their batch runs, and "
        "acknowledged once Spark has finished it. The group is made where it is missing, and belongs to this query.",
        _text,
    ),
    Option(
        "consumer", _READ, "spark", "Begin of the consumers' names in the group; '-' and the partition follow.", _text
    ),
    Option(
        "consume",
        _READ,
        "range",
        "'range': this query owns its group, and partitions are ID ranges.",
        _choice("range"),
    ),
    Option(
        "startingOffsets",
        _READ,
        "latest (streaming), earliest (batch)",
        "Where a new query, or a batch, begins: 'earliest', 'latest', 'group' (after what the group was given), an "
        "ID (the first to read), or JSON with one of these per stream. A streaming query whose group exists already "
        "takes 'latest' as 'group'.",
        _text,
    ),
    Option(
        "endingOffsets",
        _READ,
        "latest",
        "Where a batch ends: 'latest', an ID (the last to read), or JSON with one of these per stream.",
        _text,
    ),
    Option(
        "maxEntriesPerTrigger",
        _READ,
        "",
        "At most so many entries in a micro-batch, shared among the streams in proportion to what each has waiting.",
        _whole(1),
    ),
    Option("pageSize", _READ, "10000", "At most so many entries in one reply of the server.", _whole(1)),
    Option("maxlen", _WRITE, "", "Trim the stream to so many entries with each entry added.", _whole(0)),
    Option(
        "approximate",
        _WRITE,
        "true",
        "Whether trimming may leave a few more, which costs less.",
        _flag,
    ),
    Option("nomkstream", _WRITE, "false", "Whether a stream that does not exist is an error rather than made.", _flag),
    Option("chunkSize", _WRITE, "1000", "At most so many rows are sent before their replies are read.", _whole(1)),
)

_KNOWN = {option.name.lower(): option for option in TABLE}
_SPARKS = frozenset({"checkpointlocation", "queryname", "path"})
"""What Spark puts among the options of a streaming write by itself."""


@dataclass(frozen=True)
class ReadOptions:
    """What a reader is told. `address` is None for the embedded engine; positions are None where the user gave none."""

    address: Address | None
    streams: tuple[str, ...]
    group: str | None
    consumer: str
    starting: Positions | None
    ending: Positions | None
    max_entries: int | None
    page_size: int


@dataclass(frozen=True)
class WriteOptions:
    """What a writer is told. `stream` is None where the rows say it."""

    address: Address | None
    stream: str | None
    maxlen: int | None
    approximate: bool
    nomkstream: bool
    chunk_size: int


def read_options(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a read."""
    said = _parse(raw, "read")
    if "stream" in said and "streams" in said:
        fail("CONFLICTING_OPTIONS", option="stream", other="streams")
    streams: tuple[str, ...] = said.get("streams") or ((said["stream"],) if "stream" in said else ())
    if not streams:
        fail("MISSING_STREAM")
    starting, ending = (
        positions.parse(name, said[name], streams, end=end) if name in said else None
        for name, end in (("startingOffsets", False), ("endingOffsets", True))
    )
    if starting is not None and "group" in starting.kinds() and "group" not in said:
        fail("MISSING_GROUP")
    return ReadOptions(
        address=address.given(said.get("url")),
        streams=streams,
        group=said.get("group"),
        consumer=said["consumer"],
        starting=starting,
        ending=ending,
        max_entries=said.get("maxEntriesPerTrigger"),
        page_size=said["pageSize"],
    )


def write_options(raw: Mapping[str, str]) -> WriteOptions:
    """The options of a write."""
    said = _parse(raw, "write")
    return WriteOptions(
        address=address.given(said.get("url")),
        stream=said.get("stream"),
        maxlen=said.get("maxlen"),
        approximate=said["approximate"],
        nomkstream=said["nomkstream"],
        chunk_size=said["chunkSize"],
    )


def check_names(raw: Mapping[str, str]) -> None:
    """Refuse what is an option of neither scope: all that can be said before it is known which one is meant."""
    for name in raw:
        if name.lower() not in _KNOWN and name.lower() not in _SPARKS:
            _refuse(name, "reading or writing", [option.name for option in TABLE])


def _parse(raw: Mapping[str, str], scope: Scope) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, text in raw.items():
        option = _KNOWN.get(name.lower())
        if scope == "write" and name.lower() in _SPARKS:
            continue
        if option is None or scope not in option.scopes:
            doing = "reading" if scope == "read" else "writing"
            _refuse(name, doing, [each.name for each in TABLE if scope in each.scopes])
        said[option.name] = option.parse(option, text)
    for option in TABLE:
        plain = option.default and " " not in option.default
        if scope in option.scopes and plain and option.name not in said and option.name != "endingOffsets":
            said[option.name] = option.parse(option, option.default)
    return said


def _refuse(name: str, doing: str, known: list[str]) -> NoReturn:
    folded = {each.lower(): each for each in known}
    nearest = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.0)
    fail("UNKNOWN_OPTION", option=name, scope=doing, nearest=folded[nearest[0]])
