"""Values as JSON text: nested columns, and whole rows for valueFormat=json.

The text is the same as from Spark's to_json, so Spark and this connector read back the same values. Numbers are JSON
numbers with all digits; NaN and infinities are strings. Binary is Base64, structs omit null fields, and maps have
string keys. Dates and timestamps are ISO 8601 strings in the zone of their type, with UTC as `Z`.
"""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa

from spark_streams.columns import conversion
from spark_streams.columns.conversion import is_nested, nullable, scalar, with_scalars
from spark_streams.columns.scalars import Write, as_base64, decimal_to_json, float_to_json, quoted
from streamwire.lazy import compute as pc


def column(values: Any) -> Any:
    """Return an array of strings with the JSON text of each value; null for null."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    fast = None if is_nested(kind) else scalar(kind).to_json_fast
    found = None if fast is None else fast(values)
    if found is not None:
        return found
    write = writer(kind)
    stored = values.cast(stored_type(kind)).to_pylist()
    return pa.array([None if value is None else write(value) for value in stored], pa.string())


def stored_type(kind: Any) -> Any:
    """Return the type with integers for dates and times, because Python cannot represent all of Spark's values."""
    return nullable(with_scalars(kind, lambda leaf: scalar(leaf).stored_kind or leaf))


def rows(names: list[str], columns: list[Any], count: int) -> Any:
    """Return a binary array with each row as a JSON object. Null columns are omitted."""
    members: list[Any] = []
    for name, values in zip(names, columns, strict=True):
        text = pc.binary_join_element_wise(f",{json.dumps(name, ensure_ascii=False)}:", column(values), "")
        members.append(pc.fill_null(text, ""))
    joined = pc.binary_join_element_wise(*members, "") if members else pa.array([""] * count, pa.string())
    text = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")
    return pc.cast(text, pa.binary())


def writer(kind: Any) -> Write:
    """Return a function from values of an Arrow type to JSON text. Raises TypeError for types without a text form.

    The function gets values as returned by `to_pylist` of an array of the type's `stored_type`.
    """
    types = pa.types
    if conversion.is_variant(kind):
        return lambda value: _variant(conversion.variant_to_python(value))
    if types.is_struct(kind):
        fields = [(field.name, quoted(field.name), writer(field.type)) for field in kind]
        return lambda value: _struct(value, fields)
    if types.is_map(kind):
        key, item = writer(kind.key_type), _or_null(writer(kind.item_type))
        return lambda value: f"{{{','.join(f'{_as_key(key(k))}:{item(v)}' for k, v in value)}}}"
    if types.is_list(kind):
        item = _or_null(writer(kind.value_type))
        return lambda value: f"[{','.join(map(item, value))}]"
    return scalar(kind).to_json(kind)


def _or_null(write: Write) -> Write:
    return lambda value: "null" if value is None else write(value)


def _struct(value: dict[str, Any], fields: list[tuple[str, str, Write]]) -> str:
    members = (f"{shown}:{write(value[name])}" for name, shown, write in fields if value[name] is not None)
    return f"{{{','.join(members)}}}"


def _as_key(text: str) -> str:
    return text if text.startswith('"') else quoted(text)


def _variant(value: Any) -> str:
    """Return a variant as JSON.

    As in `parse_json`, doubles have a point or an exponent, and decimals have no exponent.
    """
    if isinstance(value, dict):
        return f"{{{','.join(f'{quoted(name)}:{_variant(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_variant, value))}]"
    if isinstance(value, datetime.date):  # includes datetime.datetime
        return f'"{value}"'
    return _OF_VARIANTS[type(value)](value)


_OF_VARIANTS: dict[type, Write] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: float_to_json,
    decimal.Decimal: decimal_to_json,
    str: quoted,
    bytes: as_base64,
}
