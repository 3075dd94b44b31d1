"""Shapes: what streams, groups, entries and names are in the API's JSON.

A name is `{"key": ..., "text": ...}`: the key has every byte, percent-encoded, and goes into URLs and changes; the text
is for people, with escapes for what is not printable, and may be cut. The pages only ever show texts as texts.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_from_bytes

from pystreams.dashboard.history.series import Curve
from pystreams.dashboard.sampling.snapshot import GroupRow, StreamRow
from pystreams.streams.groups.describing import Consumer, Group
from pystreams.streams.listing import Stream
from pystreams.values import fields, names
from pystreams.values.fields import Entry

_NAME_CHARACTERS = 300
_VALUE_BYTES = 2_000
_FIELDS = 60
_TREND_POINTS = 60


def name(value: bytes) -> dict[str, str]:
    """A name of any bytes."""
    return {"key": quote_from_bytes(value, safe=""), "text": cut(value, _NAME_CHARACTERS)}


def cut(value: bytes, most: int = _VALUE_BYTES) -> str:
    """A value for people, at most so long."""
    if len(value) <= most:
        return names.shown(value)
    return f"{names.shown(value[:most])}… ({len(value):,} bytes)"


def curve(found: Curve, most: int | None = None) -> dict[str, Any]:
    """A curve: times in seconds, values; at most so many points, the last ones among them."""
    step = 1 if most is None else max(1, -(-len(found.at) // most))
    start = (len(found.at) - 1) % step if found.at else 0
    return {
        "at": [at / 1000 for at in found.at[start::step]],
        "values": [None if value is None else round(value, 3) for value in found.values[start::step]],
    }


def trend(found: Curve) -> list[float | None]:
    """The few values of a small picture in a table."""
    values: list[float | None] = curve(found, _TREND_POINTS)["values"]
    return values


def stream(row: StreamRow, at: int) -> dict[str, Any]:
    """A stream of a list."""
    found = row.stream
    return {
        "name": name(found.name),
        "length": found.length,
        "bytes": found.bytes,
        "rate": found.rate,
        "groups": found.groups,
        "newest_ms": None if found.last is None else max(0, at - found.last.ms),
        "lag": row.lag,
        "exact": row.exact,
        "behind_ms": row.behind_ms,
        "pending": row.pending,
        "status": None if row.status is None else row.status.value,
    }


def stream_facts(found: Stream, now: int) -> dict[str, Any]:
    """A stream by itself."""
    return {
        "name": name(found.name),
        "length": found.length,
        "bytes": found.bytes,
        "first": None if found.first is None else str(found.first),
        "last": None if found.last is None else str(found.last),
        "generated": str(found.generated),
        "added": found.added,
        "removed": found.removed,
        "gaps": found.has_gaps,
        "groups": found.groups,
        "oldest_ms": None if found.first is None else max(0, now - found.first.ms),
        "newest_ms": None if found.last is None else max(0, now - found.last.ms),
        "average_rate": found.average_rate(now),
        "average_bytes": None if not found.length or found.bytes is None else round(found.bytes / found.length),
    }


def group(row: GroupRow) -> dict[str, Any]:
    """A group of a list."""
    return {**group_facts(row.group), "status": row.status.value}


def group_facts(found: Group) -> dict[str, Any]:
    """A group by itself."""
    return {
        "stream": name(found.stream.name),
        "name": name(found.name),
        "position": str(found.position),
        "end": str(found.stream.generated),
        "lag": found.lag,
        "exact": found.exact,
        "least": found.bounds[0],
        "most": found.bounds[1],
        "behind_ms": found.behind_ms,
        "rate": found.rate,
        "pending": found.pending,
        "consumers": found.consumer_count,
        "idle_ms": found.idle_ms,
        "oldest": None if found.oldest is None else str(found.oldest),
        "oldest_idle_ms": found.oldest_idle_ms,
    }


def consumer(found: Consumer) -> dict[str, Any]:
    """A consumer."""
    return {
        "name": name(found.name),
        "pending": found.pending,
        "idle_ms": found.idle_ms,
        "inactive_ms": found.inactive_ms,
    }


def entry(found: Entry) -> dict[str, Any]:
    """An entry: its ID, its fields as pairs of texts, and how many fields were left out."""
    entry_id, words = found
    pairs = fields.pairs(words or [])
    return {
        "id": entry_id.decode("ascii", "replace"),
        "fields": [[cut(key, _NAME_CHARACTERS), cut(value)] for key, value in pairs[:_FIELDS]],
        "more": max(0, len(pairs) - _FIELDS),
    }
