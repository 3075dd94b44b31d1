"""Options: one table from which they are parsed, checked and documented.

`TABLE` is the only list of names; those of reading alone stand in `spark_streams.config.read`. `read_options` and
`write_options` turn Spark's map, whose names are in whatever case, into frozen dataclasses; nobody else sees the map.
An option that is unknown, or not for this scope, is refused with the nearest name that is. Knows no server; the address
is only parsed here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NoReturn

from spark_streams.config import connect, read, time_zones, write
from spark_streams.config.option import Option, Scope, text
from spark_streams.config.read import ReadOptions
from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail

_BOTH: tuple[Scope, ...] = ("read", "write")


def _any_text(_option: Option, value: str) -> str:
    return value


def _zone(option: Option, value: str) -> str:
    return time_zones.parse(option.name, value)


TABLE: tuple[Option, ...] = (
    *connect.TABLE,
    Option("stream", _BOTH, "", "The stream's name, taken as it is.", text),
    Option(
        "nullValue",
        _BOTH,
        "",
        "The text that stands for a null: written in place of it, else the field is left out; and read as null, "
        "whatever the column's type. An empty text is read as null in any case, unless the column is a string or "
        "binary.",
        _any_text,
    ),
    Option(
        "timeZone",
        _BOTH,
        "",
        "Reading: the zone of times that say none; without it the session's (spark.sql.session.timeZone). Writing: the "
        "zone in which timestamps are written, with its offset; without it UTC, as 'Z'. A name such as Europe/Berlin, "
        "or an offset such as +02:00.",
        _zone,
    ),
    *read.TABLE,
    *write.TABLE,
)

_KNOWN = {option.name.lower(): option for option in TABLE}
_SPARKS = frozenset({"checkpointlocation", "queryname", "path"})
"""What Spark puts among the options of a streaming write by itself."""


def read_options(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a read."""
    said = _parse(raw, "read")
    _check_nulls(said)
    return read.build(said, connect.build(said))


def write_options(raw: Mapping[str, str]) -> WriteOptions:
    """The options of a write."""
    said = _parse(raw, "write")
    _check_nulls(said)
    return write.build(said, connect.build(said))


def _check_nulls(said: Mapping[str, Any]) -> None:
    if "nullValue" in said and said["valueFormat"] == "json":
        fail("CONFLICTING_OPTIONS", option="nullValue", other="valueFormat=json")


def check_names(raw: Mapping[str, str]) -> None:
    """Refuse what is an option of neither scope: all that can be said before it is known which one is meant."""
    for name in raw:
        if name.lower() not in _KNOWN and name.lower() not in _SPARKS:
            _refuse(name, "reading or writing", [option.name for option in TABLE])


def _parse(raw: Mapping[str, str], scope: Scope) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, value in raw.items():
        option = _KNOWN.get(name.lower())
        if scope == "write" and name.lower() in _SPARKS:
            continue
        if option is None or scope not in option.scopes:
            doing = "reading" if scope == "read" else "writing"
            _refuse(name, doing, [each.name for each in TABLE if scope in each.scopes])
        said[option.name] = option.parse(option, value)
    for option in TABLE:
        plain = option.default and " " not in option.default
        if scope in option.scopes and plain and option.name not in said and option.name != "endingOffsets":
            said[option.name] = option.parse(option, option.default)
    return said


def _refuse(name: str, doing: str, known: list[str]) -> NoReturn:
    folded = {each.lower(): each for each in known}
    nearest = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.0)
    fail("UNKNOWN_OPTION", option=name, scope=doing, nearest=folded[nearest[0]])
