"""Change events of Debezium's Redis sink: the JSON of each event's key and value, from a page of entries.

The sink has two formats, recognised entry by entry. `compact` is one field whose name is the key and whose value is the
event. `extended` is the fields `key` and `value`, which may be followed by headers. Debezium's JSON converter may wrap
the key and the event with their schemas (`{"schema": ..., "payload": ...}`); then the payload is used.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from streamclient.codec.reply import Page
from streamwire.lazy import compute as pc

#: The column of the event's key.
KEY = "_key"
#: Name for an undecodable event in the column `_rescued` and in errors.
VALUE = "value"

_NULL = b"default"  # the sink's text for a null key or value
_UNKNOWN = b"?"  # value for entries of neither format; it is not JSON, so the entry is malformed
_DECODER = json.JSONDecoder()
_SCHEMA, _PAYLOAD = b'{"schema":', b',"payload":'


def keys(page: Page) -> Any:
    """Return each event's key as JSON; null if the event has no key."""
    return _payloads(_parts(page)[0])


def values(page: Page) -> Any:
    """Return each event as JSON.

    The result is null for an entry without an event, as after a deletion, and invalid JSON for an entry in neither
    format.
    """
    return _payloads(_parts(page)[1])


def _parts(page: Page) -> tuple[Any, Any]:
    """Return two arrays with one text per entry: the events' keys, and the events."""
    offsets, names, texts = page.fields()
    bounds = offsets.to_numpy()
    sizes, firsts = np.diff(bounds), bounds[:-1]
    if not page.count or not len(names):
        return pa.nulls(page.count, pa.binary()), pa.repeat(pa.scalar(_UNKNOWN, pa.binary()), page.count)
    value = page.column(b"value")
    is_extended = pc.and_(pc.is_valid(value), pa.array(sizes > 1))
    indexes = pa.array(np.minimum(firsts, len(names) - 1))
    is_compact = pa.array(sizes == 1)
    key = pc.if_else(is_extended, page.column(b"key"), pc.if_else(is_compact, names.take(indexes), None))
    value = pc.if_else(is_extended, value, pc.if_else(is_compact, texts.take(indexes), _UNKNOWN))
    return key, value


def _payloads(texts: Any) -> Any:
    """Return the payload of each text that has a schema, and return other texts unchanged.

    The result is null for a missing text, for the sink's text for null, and for a payload that is null.
    """
    texts = pc.if_else(pc.equal(texts, _NULL), pa.scalar(None, texts.type), texts)
    wrapped = pc.fill_null(pc.starts_with(texts, _SCHEMA), False)
    if not pc.any(wrapped).as_py():
        return texts
    head = b""  # start of the previous text, up to its payload; most texts have the same start
    found: list[bytes | None] = []
    for text in texts.to_pylist():
        if text is None or not text.startswith(_SCHEMA):
            found.append(text)
            continue
        if not head or not text.startswith(head):
            head = _head(text)
        payload = text[len(head) :].rstrip()[:-1] if head else text
        found.append(None if payload.strip() == b"null" else payload)
    return pa.array(found, texts.type)


def _head(text: bytes) -> bytes:
    """Return the part of the text before its payload; empty if no payload follows the schema."""
    try:
        whole = text.decode("utf-8")
        _, end = _DECODER.raw_decode(whole, len(_SCHEMA))
    except ValueError:
        return b""
    return whole[: end + len(_PAYLOAD)].encode() if whole.startswith(_PAYLOAD.decode(), end) else b""
