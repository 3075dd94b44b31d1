"""Change events of Debezium's Redis sink: the JSON of each event's key and value, from a page of entries.

The sink has two formats, recognised entry by entry. `compact` is one field whose name is the key and whose value is the
event. `extended` is the fields `key` and `value`, which may be followed by headers. Debezium's JSON converter may wrap
the key and the event with their schemas (`{"schema": ..., "payload": ...}`); then the payload is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.columns.json_values import Converted, Schema, joined
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


@dataclass(frozen=True)
class Payloads:
    """JSON texts without their schemas. `codes`: index of each text's schema in `schemas`, which begins with an empty
    schema for texts without one.
    """

    texts: Any
    schemas: list[Schema]
    codes: Any

    def read(self, convert: Callable[[Any, Schema], dict[str, Converted]]) -> dict[str, Converted]:
        """Return the columns of all texts. `convert` returns the columns of texts with the same schema."""
        used = np.unique(self.codes)
        if len(used) < 2:
            return convert(self.texts, self.schemas[used[0] if len(used) else 0])
        rows = [np.flatnonzero(self.codes == code) for code in used]
        parts = [
            convert(self.texts.take(pa.array(some)), self.schemas[code]) for some, code in zip(rows, used, strict=True)
        ]
        order = pa.array(np.argsort(np.concatenate(rows)))
        found = {name: joined([part[name] for part in parts]) for name in parts[0]}
        return {
            name: (column.take(order), None if wrong is None else wrong.take(order))
            for name, (column, wrong) in found.items()
        }


def payloads(page: Page) -> tuple[Payloads, Payloads]:
    """Return each entry's key and its event.

    A key is null if the event has none. An event is null for an entry without an event, as after a deletion, and
    invalid JSON for an entry in neither format.
    """
    key, value = _parts(page)
    return _payloads(key), _payloads(value)


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


def _payloads(texts: Any) -> Payloads:
    """Return the payload of each text that has a schema, and return other texts unchanged.

    The result is null for a missing text, for the sink's text for null, and for a payload that is null.
    """
    texts = pc.if_else(pc.equal(texts, _NULL), pa.scalar(None, texts.type), texts)
    schemas: list[Schema] = [{}]
    codes = np.zeros(len(texts), np.int64)
    wrapped = pc.fill_null(pc.starts_with(texts, _SCHEMA), False)
    if not pc.any(wrapped, min_count=0).as_py():
        return Payloads(texts, schemas, codes)
    known = {b"": 0}
    head = b""  # start of the previous text, up to its payload; most texts have the same start
    found: list[bytes | None] = []
    for row, text in enumerate(texts.to_pylist()):
        if text is None or not text.startswith(_SCHEMA):
            found.append(text)
            continue
        if not head or not text.startswith(head):
            head, schema = _head(text)
            if head not in known:
                known[head] = len(schemas)
                schemas.append(schema)
        codes[row] = known[head]
        payload = text[len(head) :].rstrip()[:-1] if head else text
        found.append(None if payload.strip() == b"null" else payload)
    return Payloads(pa.array(found, texts.type), schemas, codes)


def _head(text: bytes) -> tuple[bytes, Schema]:
    """Return the part of the text before its payload, and the schema; empty if no payload follows the schema."""
    try:
        whole = text.decode("utf-8")
        schema, end = _DECODER.raw_decode(whole, len(_SCHEMA))
    except (ValueError, RecursionError):  # the reader of the payload refuses the text as well
        return b"", {}
    if not whole.startswith(_PAYLOAD.decode(), end):
        return b"", {}
    return whole[: end + len(_PAYLOAD)].encode(), schema if isinstance(schema, dict) else {}
