"""Strings and binary. Any text is a string; JSON represents binary as Base64."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spark_streams.columns.types.scalar import ScalarType, as_is, of
from streamwire.lazy import compute as pc

_PLAIN = r'^[^"\\\x00-\x1f\x7f]*$'


def dump(value: Any) -> str:
    """Return the JSON text of a value. Decimals become doubles."""
    return json.dumps(value, ensure_ascii=False, default=float, separators=(",", ":"))


def quoted(value: str) -> str:
    """Return the text as a JSON string."""
    return json.dumps(value, ensure_ascii=False)


def json_object(texts: Mapping[str, str]) -> str:
    """Return a JSON object of these members. Their values are JSON texts."""
    return f"{{{','.join(f'{quoted(name)}:{text}' for name, text in texts.items())}}}"


def _from_json(value: Any) -> str:
    text = value if isinstance(value, str) else dump(value)
    text.encode()  # raises ValueError for a lone surrogate
    return text


def _to_json_fast(column: Any) -> Any:
    if not pc.all(pc.match_substring_regex(column, _PLAIN), min_count=0).as_py():
        return None
    return pc.binary_join_element_wise('"', column, '"', "")


def as_base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


STRING = ScalarType(
    ids=(pa.string().id, pa.large_string().id),
    spark=("StringType",),
    read=lambda _kind, _epochs: str,
    read_fast=lambda column, _kind, _epochs: pc.cast(column, pa.string()),
    show=lambda column: pc.cast(column, pa.binary()),
    from_json=lambda _: _from_json,
    to_json=lambda _: quoted,
    to_json_fast=_to_json_fast,
    json_kind=as_is,
    empty_is_null=False,
)
BINARY = ScalarType(
    ids=(pa.binary().id, pa.large_binary().id),
    spark=("BinaryType",),
    read=lambda _kind, _epochs: lambda text: text.encode(),
    read_fast=lambda column, _kind, _epochs: column,
    show=lambda column: pc.cast(column, pa.binary()),
    from_json=lambda _: lambda value: base64.b64decode(of(str, value), validate=True),
    to_json=lambda _: as_base64,
    empty_is_null=False,
)
