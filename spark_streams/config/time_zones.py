"""Time zones: parsing of their names as in Spark.

Other modules take the zone from the Arrow type: text is read in the zone of the target type, and values are written in
the zone of their type.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

from streamwire.errors import InvalidTextError

UTC = "UTC"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2})(?::?([0-9]{2}))?)?")
_UTC_NAMES = frozenset(("UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT"))
_LONGEST = datetime.timedelta(hours=18)  # longest offset from UTC, as in Java
#: Java's short names (`ZoneId.SHORT_IDS`), which Spark accepts.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


def parse(text: str) -> str:
    """Return the zone in Arrow's spelling: UTC, an offset such as +02:00, or a name of the time zone database.

    An offset may have seconds, with which Arrow cannot compute.
    """
    text = text.strip()
    text = _SHORT.get(text, text)
    if text in _UTC_NAMES:
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is not None:
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes < 60 and seconds < 60 and offset <= _LONGEST:
            return f"{found[1]}{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")
    elif _exists(text):
        return text
    raise InvalidTextError("it must be the name of a zone, such as Europe/Berlin, or an offset, such as +02:00")


@functools.cache
def info(name: str) -> datetime.tzinfo:
    """Return the zone with this name, which must be a result of `parse`."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return datetime.UTC if name == UTC else zoneinfo.ZoneInfo(name)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return datetime.timezone(-offset if found[1] == "-" else offset)


def _exists(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return bool(name)
