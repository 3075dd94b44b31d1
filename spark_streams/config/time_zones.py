"""Time zones: parsing of their names, and the machine's own zone.

Other modules take the zone from the Arrow type: text is read in the zone of the target type, and values are written in
the zone of their type.
"""

from __future__ import annotations

import datetime
import functools
import os
import re
import zoneinfo
from collections.abc import Mapping
from pathlib import Path

from streamwire.errors import InvalidTextError

UTC = "UTC"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_UTC_NAMES = frozenset(("UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT"))


def parse(text: str) -> str:
    """Return the zone in Arrow's spelling: UTC, an offset such as +02:00, or a name of the time zone database."""
    text = text.strip()
    if text in _UTC_NAMES:
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is not None and int(found[2]) <= 18 and int(found[3] or 0) < 60:
        return f"{found[1]}{int(found[2]):02}:{found[3] or '00'}"
    if not _exists(text):
        raise InvalidTextError("it must be the name of a zone, such as Europe/Berlin, or an offset, such as +02:00")
    return text


@functools.cache
def info(name: str) -> datetime.tzinfo:
    """Return the zone with this name, which must be a result of `parse`."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return datetime.UTC if name == UTC else zoneinfo.ZoneInfo(name)
    offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return datetime.timezone(-offset if found[1] == "-" else offset)


def of_machine(environment: Mapping[str, str] = os.environ, link: Path = Path("/etc/localtime")) -> str:
    """Return the machine's zone, from the variable `TZ` or, if it is not set, from the link `/etc/localtime`.

    Return UTC if this zone does not exist.
    """
    name = environment.get("TZ", "").removeprefix(":")
    if not name and link.is_symlink():
        name = str(link.readlink()).partition("zoneinfo/")[2]
    return UTC if name in _UTC_NAMES or not _exists(name) else name


def _exists(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return bool(name)
