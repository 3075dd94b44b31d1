"""Values as JSON text: nested columns, and whole rows for valueFormat=json.

The forms are those of Spark's to_json, so that Spark and this connector read them back as the same values: numbers as
numbers (decimals with all their digits, NaN and infinities as strings), dates and timestamps as ISO 8601 strings (in
the zone of their type, UTC as `Z`), binary as Base64, structs without null fields, maps with strings as keys. Knows
Arrow's types; nothing of streams.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_streams.columns import iso8601, times, variants
from spark_streams.config import time_zones

_PLAIN = r'^[^"\\\x00-\x1f\x7f]*$'
_WHOLE_MINUTES_MICROS = times.days_of(1973, 1, 1) * times.DAY
_WHOLE_MINUTES = 1973  # before 1972 some offsets had seconds, which the text cannot express
_Write = Callable[[Any], str]


def column(values: Any) -> Any:
    """A JSON text for each value of an Arrow array, as strings; null for null."""
    kind = values.type
    types = pa.types
    if types.is_integer(kind) or types.is_boolean(kind):
        return pc.cast(values, pa.string())
    if types.is_string(kind) and pc.all(pc.match_substring_regex(values, _PLAIN), min_count=0).as_py():
        return pc.binary_join_element_wise('"', values, '"', "")
    try:
        found, write = values.to_pylist(), writer(kind)
    except OverflowError:  # a date or a time that Python does not have
        found, write = values.cast(stored_type(kind)).to_pylist(), writer(kind, stored=True)
    return pa.array([None if value is None else write(value) for value in found], pa.string())


def stored_type(kind: Any) -> Any:
    """The type with integers in the place of dates and times, as Arrow stores them."""
    types = pa.types
    if types.is_timestamp(kind):
        return pa.int64()
    if types.is_date32(kind):
        return pa.int32()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(stored_type(kind.value_type)))
    if types.is_map(kind):
        key = kind.key_field.with_type(stored_type(kind.key_type))
        return pa.map_(key, kind.item_field.with_type(stored_type(kind.item_type)))
    if types.is_struct(kind) and not variants.is_variant(kind):
        return pa.struct([field.with_type(stored_type(field.type)) for field in kind])
    return kind


def rows(names: list[str], columns: list[Any], count: int) -> Any:
    """Each row as the text of a JSON object without nulls; a binary array."""
    members: list[Any] = []
    for name, values in zip(names, columns, strict=True):
        text = pc.binary_join_element_wise(f",{json.dumps(name, ensure_ascii=False)}:", column(values), "")
        members.append(pc.fill_null(text, ""))
    joined = pc.binary_join_element_wise(*members, "") if members else pa.array([""] * count, pa.string())
    text = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")
    return pc.cast(text, pa.binary())


def writer(kind: Any, *, stored: bool = False) -> _Write:
    """A function from values of that Arrow type, as `to_pylist` gives them, to JSON text. TypeError for other types.

    `stored`: dates and times are integers (`stored_type`).
    """
    types = pa.types
    if types.is_dictionary(kind):
        return writer(kind.value_type, stored=stored)
    if variants.is_variant(kind):
        return lambda value: _variant(variants.to_python(value))
    if types.is_struct(kind):
        fields = [
            (field.name, json.dumps(field.name, ensure_ascii=False), writer(field.type, stored=stored))
            for field in kind
        ]
        return lambda value: _struct(value, fields)
    if types.is_map(kind):
        key, item = writer(kind.key_type, stored=stored), _or_null(writer(kind.item_type, stored=stored))
        return lambda value: f"{{{','.join(f'{_as_key(key(k))}:{item(v)}' for k, v in value)}}}"
    if types.is_list(kind) or types.is_large_list(kind):
        item = _or_null(writer(kind.value_type, stored=stored))
        return lambda value: f"[{','.join(map(item, value))}]"
    if stored and types.is_date32(kind):
        return lambda value: f'"{times.date_text(value)}"'
    if stored and types.is_timestamp(kind):
        zone = None if kind.tz is None else time_zones.info(kind.tz)
        return lambda value: f'"{_stored_moment(value, zone)}"'
    for test, write in _SCALARS:
        if test(kind):
            return write
    raise TypeError(f"{kind} has no text form")


def _stored_moment(micros: int, zone: datetime.tzinfo | None) -> str:
    """As `_moment`, of a time of any year."""
    if zone is None:
        return times.local_text(micros, "T", short=True)
    offset = times.offset_at(micros, zone)
    if not offset or micros < _WHOLE_MINUTES_MICROS:
        return f"{times.local_text(micros, 'T', short=True)}Z"
    return times.local_text(micros + offset, "T", short=True) + times.offset_text(offset)


def _or_null(write: _Write) -> _Write:
    return lambda value: "null" if value is None else write(value)


def _struct(value: dict[str, Any], fields: list[tuple[str, str, _Write]]) -> str:
    there = (f"{shown}:{write(value[name])}" for name, shown, write in fields if value[name] is not None)
    return f"{{{','.join(there)}}}"


def _as_key(text: str) -> str:
    return text if text.startswith('"') else json.dumps(text, ensure_ascii=False)


def _string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _float32(value: float) -> str:
    return str(pc.cast(pa.scalar(value, pa.float32()), pa.string())) if math.isfinite(value) else _float(value)


def _binary(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _decimal(value: decimal.Decimal) -> str:
    return format(value, "f")


def _variant(value: Any) -> str:
    """What a variant holds. Doubles have a point or an exponent, decimals never an exponent, as `parse_json` has it."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{_string(name)}:{_variant(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_variant, value))}]"
    if isinstance(value, datetime.date):  # (and datetime.datetime)
        return f'"{value}"'
    return _OF_VARIANTS[type(value)](value)


def _moment(value: datetime.datetime) -> str:
    offset = value.utcoffset()
    if value.tzinfo is None or (offset and value.year >= _WHOLE_MINUTES):
        return f'"{value.isoformat()}"'
    return f'"{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat()}Z"'


_SCALARS: list[tuple[Callable[[Any], bool], _Write]] = [
    (pa.types.is_boolean, lambda value: "true" if value else "false"),
    (pa.types.is_integer, str),
    (pa.types.is_float32, _float32),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_string, _string),
    (pa.types.is_large_string, _string),
    (pa.types.is_binary, _binary),
    (pa.types.is_large_binary, _binary),
    (pa.types.is_date, lambda value: f'"{value.isoformat()}"'),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_time, lambda value: f'"{iso8601.show_time(value)}"'),
    (pa.types.is_duration, lambda value: f'"{iso8601.show_interval(value)}"'),
    (pa.types.is_null, lambda _: "null"),
]

_OF_VARIANTS: dict[type, _Write] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: _float,
    decimal.Decimal: _decimal,
    str: _string,
    bytes: _binary,
}
