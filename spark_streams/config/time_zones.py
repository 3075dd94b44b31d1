"""Time zones: where a time is meant that says none, and in which one times are written.

Owns the names that a zone can have, and where the zone comes from that no option names. Everywhere else a zone is a
part of Arrow's type: texts are read in the zone of the type they become, values are written in that of the type they
have. Knows nothing of streams or servers.
"""

from __future__ import annotations

import datetime
import functools
import os
import re
import zoneinfo
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from spark_streams.errors import fail

UTC = "UTC"
SETTING = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_UTC_NAMES = frozenset(("UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT"))
_EXPECTED = "it must be a zone's name, as in Europe/Berlin, or an offset, as in +02:00"


def parse(option: str, text: str) -> str:
    """The zone's name as Arrow has it: UTC, an offset with hours and minutes, or a name of the zone database."""
    text = text.strip()
    if text in _UTC_NAMES:
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is not None and int(found[2]) <= 18 and int(found[3] or 0) < 60:
        return f"{found[1]}{int(found[2]):02}:{found[3] or '00'}"
    if not _exists(text):
        fail("INVALID_OPTION", option=option, value=text, expected=_EXPECTED)
    return text


@functools.cache
def info(name: str) -> datetime.tzinfo:
    """The zone of a name that `parse` gives."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return datetime.UTC if name == UTC else zoneinfo.ZoneInfo(name)
    offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return datetime.timezone(-offset if found[1] == "-" else offset)


def of_session() -> str | None:
    """The zone of the Spark session whose task this is; None outside of tasks, and where the session names none."""
    context = TaskContext.get()
    said = context.getLocalProperty(SETTING) if context is not None else None
    return parse(SETTING, said) if said else None


def of_machine(environment: Mapping[str, str] = os.environ, link: Path = Path("/etc/localtime")) -> str:
    """The zone of this machine, which is what a session has that names none, if this machine is the driver's."""
    said = environment.get("TZ", "").removeprefix(":")
    if not said and link.is_symlink():
        said = str(link.readlink()).partition("zoneinfo/")[2]
    return (UTC if said in _UTC_NAMES else said) if said and _exists(said) else UTC


def _exists(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return bool(name)


def kind_in(kind: Any, zone: str) -> Any:
    """The Arrow type with that zone wherever it has one."""
    types = pa.types
    if types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, zone)
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(kind_in(kind.value_type, zone)))
    if types.is_map(kind):
        key = kind.key_field.with_type(kind_in(kind.key_type, zone))
        return pa.map_(key, kind.item_field.with_type(kind_in(kind.item_type, zone)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(kind_in(field.type, zone)) for field in kind])
    return kind


def array_in(column: Any, zone: str) -> Any:
    """The same moments, in that zone."""
    kind = kind_in(column.type, zone)
    return column if kind == column.type else column.cast(kind)
