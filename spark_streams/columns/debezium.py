"""Change events as Debezium's Redis sink writes them: the JSON of an event's key and value, from a page of entries.

The sink has two formats, told apart entry by entry: `compact`, one field whose name is the key and whose value is the
event; and `extended`, the fields `key` and `value` (headers may follow). Debezium's JSON converter may put both beside
their schemas (`{"schema": ..., "payload": ...}`); the payload is what counts then. Knows nothing of columns and types.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamclient.codec.reply import Page

#: The column of the event's key.
KEY = "_key"

_NULL = b"default"  # what the sink writes for a key or a value that is null
_UNKNOWN = b"?"  # in place of a value in an entry of neither format; it is no JSON, so the entry is malformed
_DECODER = json.JSONDecoder()
_SCHEMA, _PAYLOAD = b'{"schema":', b',"payload":'


def keys(page: Page) -> Any:
    """Each event's key as JSON; null without a key."""
    return _payloads(_parts(page)[0])


def values(page: Page) -> Any:
    """Each event as JSON; null without an event, as after a deletion, and in entries of neither format."""
    return _payloads(_parts(page)[1])


def _parts(page: Page) -> tuple[Any, Any]:
    """Return the texts of keys and values."""
    offsets, names, texts = page.fields()
    bounds = offsets.to_numpy()
    sizes, firsts = np.diff(bounds), bounds[:-1]
    if not page.count or not len(names):
        return pa.nulls(page.count, pa.binary()), pa.repeat(pa.scalar(_UNKNOWN, pa.binary()), page.count)
    value = page.column(b"value")
    is_extended = pc.and_(pc.is_valid(value), pa.array(sizes > 1))
    one = pa.array(np.minimum(firsts, len(names) - 1))
    is_compact = pa.array(sizes == 1)
    key = pc.if_else(is_extended, page.column(b"key"), pc.if_else(is_compact, names.take(one), None))
    value = pc.if_else(is_extended, value, pc.if_else(is_compact, texts.take(one), _UNKNOWN))
    return key, value


def _payloads(texts: Any) -> Any:
    """Return the payloads of texts that carry a schema; other texts unchanged, and null for null."""
    texts = pc.if_else(pc.equal(texts, _NULL), pa.scalar(None, texts.type), texts)
    wrapped = pc.fill_null(pc.starts_with(texts, _SCHEMA), False)
    if not pc.any(wrapped).as_py():
        return texts
    head = b""  # of the last text that was looked into, up to its payload: most have the same
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
    """Return the text up to its payload; nothing if it has none behind its schema."""
    try:
        whole = text.decode("utf-8")
        _, end = _DECODER.raw_decode(whole, len(_SCHEMA))
    except ValueError:
        return b""
    return whole[: end + len(_PAYLOAD)].encode() if whole.startswith(_PAYLOAD.decode(), end) else b""
