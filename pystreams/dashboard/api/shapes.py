"""Shapes: what streams, groups, entries and names are in the API's JSON.

A name is `{"key": ..., "text": ...}`: the key has every byte, percent-encoded, and goes into URLs and changes; the text
is for people, with escapes for what is not printable, and may be cut. The pages only ever show texts as texts.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_from_bytes

from pystreams import measures
from pystreams.dashboard.history.series import Curve
from pystreams.measures import GroupRow, StreamRow, View
from pystreams.streams.groups.states import Consumer
from pystreams.values import fields, names
from pystreams.values.fields import Entry

_NAME_CHARACTERS = 300
_VALUE_BYTES = 2_000
_FIELDS = 60
_TREND_POINTS = 60
_GROUP = tuple(dict.fromkeys((*measures.GROUP_DETAILS, *measures.GROUPS_IN_BROWSER)))


def name(value: bytes) -> dict[str, str]:
    """Return a name of any bytes."""
    return {"key": quote_from_bytes(value, safe=""), "text": cut(value, _NAME_CHARACTERS)}


def cut(value: bytes, most: int = _VALUE_BYTES) -> str:
    """Return a value as text of limited length."""
    if len(value) <= most:
        return names.shown(value)
    return f"{names.shown(value[:most])}… ({len(value):,} bytes)"


def curve(found: Curve, most: int | None = None) -> dict[str, Any]:
    """Return a curve: times in seconds, and values, thinned to about `most` points; the last one stays."""
    step = 1 if most is None else max(1, -(-len(found.at) // most))
    start = (len(found.at) - 1) % step if found.at else 0
    return {
        "at": [at / 1000 for at in found.at[start::step]],
        "values": [None if value is None else round(value, 3) for value in found.values[start::step]],
    }


def trend(found: Curve) -> list[float | None]:
    """Return the few values of a small picture in a table."""
    values: list[float | None] = curve(found, _TREND_POINTS)["values"]
    return values


def stream(row: StreamRow, view: View[StreamRow] = measures.STREAMS_IN_BROWSER) -> dict[str, Any]:
    """Return a stream: of a list, or with other measures."""
    return {"name": name(row.stream.name), **measures.document(view, row)}


def group(row: GroupRow) -> dict[str, Any]:
    """Return a group."""
    names_of_both = {"stream": name(row.group.stream.name), "name": name(row.group.name)}
    return {**names_of_both, **measures.document(_GROUP, row)}


def consumer(found: Consumer) -> dict[str, Any]:
    """Return a consumer."""
    return {"name": name(found.name), **measures.document(measures.CONSUMER, found)}


def entry(found: Entry) -> dict[str, Any]:
    """Return an entry: its ID, its fields as pairs of texts, and how many fields were left out."""
    entry_id, words = found
    pairs = fields.pairs(words or [])
    return {
        "id": entry_id.decode("ascii", "replace"),
        "fields": [[cut(key, _NAME_CHARACTERS), cut(value)] for key, value in pairs[:_FIELDS]],
        "more": max(0, len(pairs) - _FIELDS),
    }
