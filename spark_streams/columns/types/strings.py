"""Strings and binary. Any text is a string; JSON represents binary as Base64."""

from __future__ import annotations

import base64
import decimal
import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spark_streams.columns.types.scalar import ScalarType, as_is, of
from streamwire.lazy import compute as pc

_PLAIN = r'^[^"\\\x00-\x1f\x7f]*$'


class Number(decimal.Decimal):
    """A number with its original text, since a variant stores 1.5e-05 as a double and 0.000015 as a decimal."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def dump(value: Any) -> str:
    """Return the JSON text of a value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def exact(value: Any) -> str:
    """Return the JSON text of a value that was read from JSON, with the original text of numbers.

    NaN and infinities become strings. A surrogate without its pair, which is not text, is written as an escape.
    """
    return _exact(value).encode("utf-8", "backslashreplace").decode()


def _exact(value: Any) -> str:
    # One call for each level: with one more for a generator, deeply nested values would exceed Python's limit.
    if isinstance(value, dict):
        return f"{{{','.join(map('{}:{}'.format, map(quoted, value), map(_exact, value.values())))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    if isinstance(value, Number):
        return value.text
    if isinstance(value, float):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return str(value) if isinstance(value, decimal.Decimal) else dump(value)


def quoted(value: str) -> str:
    """Return the text as a JSON string."""
    return json.dumps(value, ensure_ascii=False)


def json_object(texts: Mapping[str, str]) -> str:
    """Return a JSON object of these members. Their values are JSON texts."""
    return f"{{{','.join(f'{quoted(name)}:{text}' for name, text in texts.items())}}}"


def _from_json(value: Any) -> str:
    """Return the text of a string, with "?" for a surrogate without its pair, or the JSON text of another value."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else exact(value)


def _to_json_fast(column: Any) -> Any:
    if not pc.all(pc.match_substring_regex(column, _PLAIN), min_count=0).as_py():
        return None
    return pc.binary_join_element_wise('"', column, '"', "")


def as_base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


STRING = ScalarType(
    ids=(pa.string().id,),
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
    ids=(pa.binary().id,),
    spark=("BinaryType",),
    read=lambda _kind, _epochs: lambda text: text.encode(),
    read_fast=lambda column, _kind, _epochs: column,
    show=lambda column: pc.cast(column, pa.binary()),
    from_json=lambda _: lambda value: base64.b64decode(of(str, value), validate=True),
    to_json=lambda _: as_base64,
    empty_is_null=False,
)
