"""JSON forms of streams, groups, entries and names in the API.

A name is `{"key": ..., "text": ...}`. The key has all bytes, percent-encoded, for URLs and changes. The text is for
display, with escapes for unprintable characters, and may be truncated. The pages never interpret it as HTML.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_from_bytes

from pystreams import measures
from pystreams.dashboard.sampler import Curve
from pystreams.measures import GroupRow, StreamRow, View
from pystreams.streams.group_states import Consumer
from pystreams.values import fields, names
from pystreams.values.fields import Entry

_NAME_BYTES = 300
_VALUE_BYTES = 2_000
_FIELDS = 60
_GROUP = tuple(dict.fromkeys((*measures.GROUP_DETAILS, *measures.GROUPS_IN_BROWSER)))


def name(value: bytes) -> dict[str, str]:
    """Return the JSON form of a name, which may contain any bytes."""
    return {"key": quote_from_bytes(value, safe=""), "text": cut(value, _NAME_BYTES)}


def cut(value: bytes, most: int = _VALUE_BYTES) -> str:
    """Return a value as text of limited length."""
    if len(value) <= most:
        return names.shown(value)
    return f"{names.shown(value[:most])}… ({len(value):,} bytes)"


def curve(found: Curve, most: int | None = None) -> dict[str, Any]:
    """Return a curve: times in seconds, and values. It is thinned to at most `most` points, including the last one."""
    step = 1 if most is None else max(1, -(-len(found.at) // most))
    start = (len(found.at) - 1) % step if found.at else 0
    return {
        "at": [at / 1000 for at in found.at[start::step]],
        "values": [None if value is None else round(value, 3) for value in found.values[start::step]],
    }


def stream(row: StreamRow, view: View[StreamRow] = measures.STREAMS_IN_BROWSER) -> dict[str, Any]:
    """Return the JSON form of a stream: its name and the measures of a view, by default of the list of streams."""
    return {"name": name(row.stream.name), **measures.document(view, row)}


def group(row: GroupRow) -> dict[str, Any]:
    """Return the JSON form of a group: its names and its measures."""
    names_of_both = {"stream": name(row.group.stream.name), "name": name(row.group.name)}
    return {**names_of_both, **measures.document(_GROUP, row)}


def consumer(found: Consumer) -> dict[str, Any]:
    """Return the JSON form of a consumer: its name and its measures."""
    return {"name": name(found.name), **measures.document(measures.CONSUMER, found)}


def entry(found: Entry) -> dict[str, Any]:
    """Return the JSON form of an entry: its ID, its fields as pairs of strings, and the number of omitted fields."""
    entry_id, words = found
    pairs = fields.pairs(words or [])
    return {
        "id": entry_id.decode("ascii", "replace"),
        "fields": [[cut(key, _NAME_BYTES), cut(value)] for key, value in pairs[:_FIELDS]],
        "more": max(0, len(pairs) - _FIELDS),
    }
