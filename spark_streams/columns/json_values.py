"""JSON to typed columns: with Arrow's parser, or one value at a time. A field contains a nested value or a whole row.

Conversion follows Spark's JSON source: numbers stay numbers, a string column gets the JSON text of other values, times
are strings or epochs, binary is Base64, missing members are null. A member of a struct that does not fit becomes null,
and so does a list or a map with an item that does not fit at all. The value that contains it is reported as malformed.

`members` and `from_text` use Arrow's result only if it certainly equals the result of the scalar fallback,
`members_slowly` and `from_text_slowly`, and no text is malformed. The fallback converts everything else: texts that
Arrow refuses, and texts and types that Arrow reads differently. The fallback is called for small chunks, so that one
such text does not slow down a whole page.

The texts are joined by line feeds, and each row of Arrow's result is one text. This holds because every text begins
with `{`, ends with `}` and contains no line feed. No JSON value can continue across a `}`, a line feed and a `{`: it
would need a comma there, or be a string, which cannot contain a line feed. So every line feed separates two rows, and
if there are as many rows as lines, each line is one row.

Kafka Connect's JSON converter writes dates and times as numbers, and decimals as Base64. The value's schema names its
logical type. A value without a schema is converted if its meaning is clear: a number in a date column is a day, and the
size of a number in a timestamp column shows its unit, because Debezium never writes seconds.

Debezium's Redis sink has two formats, recognised entry by entry. `compact` is one field whose name is the event's key
and whose value is the event. `extended` is the fields `key` and `value`, which may be followed by headers. Debezium's
JSON converter may wrap the key and the event with their schemas (`{"schema": ..., "payload": ...}`); then the payload
is used.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.columns import conversion, times
from spark_streams.columns.conversion import nullable_offsets, scalar
from spark_streams.columns.scalars import Number, exact, of, parsed, refuse
from streamclient.codec.reply import Page
from streamclient.formats.schemas import UndecodableError, is_deep
from streamwire.lazy import arrow_json
from streamwire.lazy import compute as pc

# -- values with a schema of Kafka Connect, or of Debezium -------------------------------------------------------------

#: A schema as the JSON converter writes it; empty if it is unknown.
Schema = Mapping[str, Any]

#: Nanoseconds per unit of the numbers of a logical type.
_UNITS = {
    "io.debezium.time.Date": 1000 * times.DAY,
    "io.debezium.time.Time": 10**6,
    "io.debezium.time.MicroTime": 10**3,
    "io.debezium.time.NanoTime": 1,
    "io.debezium.time.Timestamp": 10**6,
    "io.debezium.time.MicroTimestamp": 10**3,
    "io.debezium.time.NanoTimestamp": 1,
    "io.debezium.time.MicroDuration": 10**3,
    "io.debezium.time.NanoDuration": 1,
    "org.apache.kafka.connect.data.Date": 1000 * times.DAY,
    "org.apache.kafka.connect.data.Time": 10**6,
    "org.apache.kafka.connect.data.Timestamp": 10**6,
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_MIDNIGHT = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SCALE, _VALUE = "scale", "value"  # members of io.debezium.data.VariableScaleDecimal
_MOST_BYTES = 64  # maximum size of a decimal's digits; a column has at most 38 digits
#: Units of timestamps without a schema, as (limit, nanoseconds per unit): a number below the limit has this unit.
_BY_SIZE = ((10**14, 10**6), (10**17, 10**3), (2**63, 1))


def _schema_of_member(schema: Schema | None, name: str) -> Schema | None:
    """Return the schema of a struct's member."""
    if schema is None:
        return None
    fields = schema.get("fields")
    found = (each for each in fields if isinstance(each, dict)) if isinstance(fields, list) else ()
    return next((each for each in found if each.get("field") == name), {})


def _schema_of_items(schema: Schema | None) -> Schema | None:
    """Return the schema of a list's items or a map's values."""
    if schema is None:
        return None
    found = schema.get("items", schema.get("values"))
    return found if isinstance(found, dict) else {}


def _logical_converter(kind: Any, schema: Schema) -> Callable[[Any], Any]:
    """Return a function from JSON values of this schema to values of a scalar Arrow type.

    It raises ValueError, TypeError or ArithmeticError for values that do not fit.
    """
    plain = scalar(kind).from_json(kind)
    name, types = str(schema.get("name")), pa.types
    if types.is_decimal(kind):
        return lambda value: plain(_digits(value, schema) if name == _DECIMAL else _variable(value))
    if types.is_temporal(kind):
        unit = _UNITS.get(name, _UNITS["io.debezium.time.Date"] if types.is_date(kind) else None)
        return lambda value: _time(value, unit, kind) if type(value) is int else plain(_local(value, kind))
    return plain


def _variable(value: Any) -> Any:
    """Return the digits of a decimal with its own scale, and other values unchanged."""
    return _digits(value[_VALUE], {"parameters": value}) if isinstance(value, dict) and _VALUE in value else value


def _digits(value: Any, schema: Schema) -> Any:
    """Return a decimal as text. Numbers, which the JSON converter can write instead, are returned unchanged."""
    if not isinstance(value, str):
        return value
    data = base64.b64decode(value, validate=True)
    if len(data) > _MOST_BYTES:
        raise ValueError("a decimal with too many digits")
    scale = int(of(dict, schema.get("parameters")).get(_SCALE, 0))
    return f"{int.from_bytes(data, 'big', signed=True)}E{-scale}"


def _local(value: Any, kind: Any) -> Any:
    """Return a date or time of day without `Z`, which Debezium's ISO 8601 texts have, and other values unchanged."""
    return value.removesuffix("Z") if isinstance(value, str) and not pa.types.is_timestamp(kind) else value


def _time(value: int, unit: int | None, kind: Any) -> Any:
    """Return the date, time or interval of a number. `unit`: nanoseconds per unit; None if it is unknown."""
    types = pa.types
    if unit is None:
        sized = (unit for limit, unit in _BY_SIZE if abs(value) < limit) if types.is_timestamp(kind) else iter(())
        unit = next(sized, None) or refuse(value)
    micros = times.checked(value * unit // 1000)
    if types.is_date(kind):
        days = micros // times.DAY
        return days if -times.MOST_DAYS <= days < times.MOST_DAYS else refuse(value)
    if types.is_time(kind):
        if not 0 <= micros < times.DAY:
            refuse(value)
        return (_MIDNIGHT + datetime.timedelta(microseconds=micros)).time()
    return micros


# -- one value at a time ----------------------------------------------------------------------------------------------

Convert = Callable[[Any], Any]
#: A column, which is null for missing, empty and malformed texts; and a boolean array that flags malformed texts, or
#: None if no text is malformed.
Converted = tuple[Any, Any]

#: Maximum nesting of a JSON text. The functions of this module are recursive, with one call for each level.
MOST_LEVELS = 400

_WRONG = (ValueError, TypeError, ArithmeticError, RecursionError)
_DIGITS = 4000  # texts of this length or more become decimals, because Python's int refuses more than 4,300 digits


class _PartError(Exception):
    """Raised if only some members of a value fit. The other members are null in `value`."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def from_text_slowly(column: Any, target: Any, schema: Schema | None = None) -> Converted:
    """Return the result of `from_text`, converting one text at a time. This is the definition of the result."""
    convert = converter(target, schema)
    # A variant can represent JSON null itself.
    read = (
        (lambda text: conversion.variant_of(text.decode()))
        if conversion.is_variant(target)
        else lambda text: convert(load(text))
    )
    found = [_fitting(read, text) if text else (None, False) for text in column.to_pylist()]
    return _converted(found, target)


def members_slowly(column: Any, kinds: Mapping[str, Any], schema: Schema | None = None) -> dict[str, Converted]:
    """Return the result of `members`, converting one text at a time. This is the definition of the result."""
    converters = {name: converter(kind, _schema_of_member(schema, name)) for name, kind in kinds.items()}
    found: dict[str, list[tuple[Any, bool]]] = {name: [] for name in kinds}
    for text in column.to_pylist():
        row = object_in(text)
        for name, convert in converters.items():
            found[name].append((None, True) if row is None else _member(row, name, convert))
    return {name: _converted(found[name], kind) for name, kind in kinds.items()}


def _converted(found: list[tuple[Any, bool]], kind: Any) -> Converted:
    wrong = [is_wrong for _, is_wrong in found]
    return pa.array([value for value, _ in found], kind), pa.array(wrong) if any(wrong) else None


def _fitting(convert: Convert, value: Any) -> tuple[Any, bool]:
    """Return the part of a value that fits, null if none does, and whether another part does not fit."""
    try:
        return convert(value), False
    except _PartError as part:
        return part.value, True
    except _WRONG:
        return None, True


def object_in(text: bytes | None) -> dict[str, Any] | None:
    """Return the JSON object in the text; {} if the text is missing or empty, and None if it is not a JSON object."""
    try:
        row = load(text) if text else {}
    except _WRONG:
        return None
    return row if isinstance(row, dict) else None


def member_texts(text: bytes) -> dict[str, str]:
    """Return each member of a JSON object as JSON text, with the original text of numbers.

    Raises UndecodableError if the text is not a JSON object.
    """
    row = object_in(text)
    if row is None:
        raise UndecodableError("it is not a JSON object")
    return {name: exact(value) for name, value in row.items()}


def load(text: bytes) -> Any:
    """Return the text's JSON value. Numbers with a fraction are decimals, so that no digit is lost.

    Raises ValueError if the text is not JSON, or is nested in more than `MOST_LEVELS` levels, and RecursionError if it
    is nested even deeper.
    """
    found = json.loads(text.decode("utf-8"), parse_float=Number, parse_int=_whole)
    if text.count(b"[") + text.count(b"{") > MOST_LEVELS and is_deep(found, MOST_LEVELS):
        raise ValueError(f"it is nested in more than {MOST_LEVELS} levels")
    return found


def _whole(text: str) -> int | decimal.Decimal:
    return int(text) if len(text) < _DIGITS else decimal.Decimal(text)


def converter(target: Any, schema: Schema | None = None) -> Convert:
    """Return a function from JSON values to values of the type `target`. It raises `_PartError` if only some members
    fit, and one of `_WRONG` if nothing fits.

    `schema`: Kafka Connect's schema of the values; empty if it is unknown, and None if they are not from Connect.
    """
    inner = _converter(target, schema)
    if conversion.is_variant(target):
        return inner  # a variant represents null itself
    return lambda value: None if value is None else inner(value)


def _member(row: dict[str, Any], name: str, convert: Convert) -> tuple[Any, bool]:
    """Return the result of `_fitting` for a member; null if it is missing."""
    return _fitting(convert, row[name]) if name in row else (None, False)


def _converter(target: Any, schema: Schema | None) -> Convert:
    types = pa.types
    if conversion.is_variant(target):
        return lambda value: conversion.variant_of(exact(value))
    if types.is_list(target):
        element = converter(target.value_type, _schema_of_items(schema))
        return lambda value: _items(of(list, value), element)
    if types.is_struct(target):
        fields = [(field.name, converter(field.type, _schema_of_member(schema, field.name))) for field in target]
        return lambda value: _struct(of(dict, value), fields)
    if types.is_map(target):
        key, item = _key_converter(target.key_type), converter(target.item_type, _schema_of_items(schema))
        return lambda value: _pairs(of(dict, value), key, item)
    return scalar(target).from_json(target) if schema is None else _logical_converter(target, schema)


def _struct(row: dict[str, Any], fields: list[tuple[str, Convert]]) -> dict[str, Any]:
    found = {name: _member(row, name, convert) for name, convert in fields}
    made = {name: value for name, (value, _) in found.items()}
    if any(is_wrong for _, is_wrong in found.values()):
        raise _PartError(made)
    return made


def _items(values: Iterable[Any], convert: Convert) -> list[Any]:
    made, is_wrong = [], False
    for value in values:
        try:
            made.append(convert(value))
        except _PartError as part:
            made.append(part.value)
            is_wrong = True
    if is_wrong:
        raise _PartError(made)
    return made


def _pairs(row: dict[str, Any], key: Convert, item: Convert) -> list[tuple[Any, Any]]:
    names = [key(name) for name in row]
    try:
        return list(zip(names, _items(row.values(), item), strict=True))
    except _PartError as part:
        raise _PartError(list(zip(names, part.value, strict=True))) from part


def _key_converter(target: Any) -> Convert:
    """Return a function from member names to map keys. Keys that are not strings are parsed like a field's text."""
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return converter(target)
    read = scalar(target).read(target, None)
    return lambda name: parsed(read, name)


# -- Arrow's parser ---------------------------------------------------------------------------------------------------

_CHUNKS = 8  # number of chunks into which a declined column is divided
_FEWEST = 32  # minimum number of texts in a chunk: with fewer, calling Arrow costs more than it saves
_LARGEST = 64 << 20  # maximum number of bytes that Arrow parses at a time


def members(column: Any, kinds: Mapping[str, Any], schema: Schema | None = None) -> dict[str, Converted]:
    """Return one column for each member in `kinds`, which has the members' types by name.

    An empty text has no members. Any other text that is not a JSON object is malformed. `schema`: see `converter`.
    """
    raw = {name: _raw(kind) for name, kind in kinds.items()}
    quick = {name: kind for name, kind in kinds.items() if raw[name] is not None}
    fields = [(name, raw[name]) for name in quick]

    def fast(texts: Any) -> dict[str, Converted] | None:
        rows = _rows(pc.if_else(_is_empty(texts), b"{}", texts), fields)
        if rows is None:
            return None
        found = {name: _typed(rows[name], kind) for name, kind in quick.items()}
        return None if None in found.values() else {name: (column, None) for name, column in found.items()}

    found = in_chunks(column, fast, lambda texts: members_slowly(texts, quick, schema)) if quick else {}
    others = {name: kind for name, kind in kinds.items() if name not in quick}
    return {**found, **members_slowly(column, others, schema)} if others else found


def from_text(column: Any, target: Any, schema: Schema | None = None) -> Converted:
    """Return the JSON texts as values of the type `target`. `schema`: see `converter`."""
    raw = _raw(target)
    if raw is None:
        return from_text_slowly(column, target, schema)

    def fast(texts: Any) -> dict[str, Converted] | None:
        missing = _is_empty(texts)
        if pa.types.is_struct(raw):
            rows = _rows(pc.if_else(missing, b"{}", texts), [(field.name, field.type) for field in raw])
            made = (
                None
                if rows is None
                else pa.StructArray.from_arrays(list(rows.values()), fields=list(raw), mask=missing)
            )
        else:
            # An additional member would mean a second value after the first, which the fallback refuses.
            texts = pc.binary_join_element_wise(b'{"":', pc.if_else(missing, b"[]", texts), b"}", b"")
            rows = _rows(texts, [("", raw)], others="error")
            made = None if rows is None else pc.if_else(missing, pa.scalar(None, raw), rows[""])
        typed = None if made is None else _typed(made, target)
        return None if typed is None else {"": (typed, None)}

    return in_chunks(column, fast, lambda texts: {"": from_text_slowly(texts, target, schema)})[""]


def in_chunks(column: Any, fast: Any, slow: Any) -> dict[str, Converted]:
    """Return the converted column. If `fast` declines it, convert smaller chunks; chunks that `fast` still declines are
    converted by `slow`.
    """
    found: dict[str, Converted] | None = fast(column)
    if found is not None:
        return found
    size = max(_FEWEST, -(-len(column) // _CHUNKS))
    if size >= len(column):
        return slow(column)  # type: ignore[no-any-return]
    parts = [in_chunks(column.slice(start, size), fast, slow) for start in range(0, len(column), size)]
    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def joined(parts: Sequence[Converted]) -> Converted:
    """Return the concatenation of columns."""
    column = pa.concat_arrays([column for column, _ in parts])
    if all(wrong is None for _, wrong in parts):
        return column, None
    return column, pa.concat_arrays(
        [pa.repeat(pa.scalar(False), len(part)) if wrong is None else wrong for part, wrong in parts]
    )


def either(left: Any, right: Any) -> Any:
    """Return the rows that are flagged by either of two boolean arrays; None flags no row."""
    return right if left is None else left if right is None else pc.or_(left, right)


def _is_empty(texts: Any) -> Any:
    return pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)


def _rows(texts: Any, fields: list[tuple[str, Any]], others: str = "ignore") -> dict[str, Any] | None:
    """Return Arrow's columns for these members, by name and type; None if the fallback must convert the texts."""
    if not len(texts) or texts.nbytes > _LARGEST or not _are_objects(texts):
        return None
    buffer = pc.binary_join_element_wise(texts, b"", b"\n").buffers()[2]
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(buffer) + 1)
    parsing = arrow_json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior=others)
    try:
        rows = arrow_json.read_json(pa.BufferReader(buffer), reading, parsing)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    if rows.num_rows != len(texts) or rows.schema != pa.schema(fields):
        return None
    return {name: rows.column(name).combine_chunks() for name, _ in fields}


def _are_objects(texts: Any) -> bool:
    """Return whether the texts are UTF-8, not nested too deeply, and as the module's docstring requires."""
    try:
        pc.cast(texts, pa.string())
    except pa.ArrowInvalid:
        return False
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if texts.null_count or np.any(np.diff(bounds) < 2):
        return False
    characters = np.frombuffer(data, np.uint8)
    if np.any(characters[bounds[:-1]] != ord("{")) or np.any(characters[bounds[1:] - 1] != ord("}")):
        return False
    if bytes(memoryview(data)[bounds[0] : bounds[-1]]).find(b"\n") >= 0:
        return False
    if int(np.diff(bounds).max()) <= MOST_LEVELS:
        return True
    brackets = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    return bool(pc.max(brackets).as_py() <= MOST_LEVELS)


def _raw(kind: Any) -> Any:
    """Return the type that Arrow's parser reads and `_typed` converts to `kind`; None if there is no such type."""
    types = pa.types
    if types.is_list(kind):
        inner = _raw(kind.value_type)
        return None if inner is None else pa.list_(kind.value_field.with_type(inner))
    if types.is_struct(kind) and kind.num_fields and len({field.name for field in kind}) == kind.num_fields:
        inner = [_raw(field.type) for field in kind]
        return (
            None if None in inner else pa.struct([each.with_type(raw) for each, raw in zip(kind, inner, strict=True)])
        )
    if types.is_nested(kind):
        return None
    read_as = scalar(kind).json_kind
    return None if read_as is None else read_as(kind)


def _typed(column: Any, kind: Any) -> Any:
    """Return the column as `kind`; None if a value does not fit."""
    types = pa.types
    if column.type == kind:
        return column
    if types.is_list(kind):
        inner = _typed(column.values, kind.value_type)
        if inner is None:
            return None
        return pa.ListArray.from_arrays(nullable_offsets(column), inner, kind)
    if types.is_struct(kind):
        inners = [_typed(column.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        if any(inner is None for inner in inners):
            return None
        return pa.StructArray.from_arrays(inners, fields=list(kind), mask=pc.is_null(column))
    if types.is_string(column.type):
        found = conversion.from_text(pc.cast(column, pa.binary()), kind)
        return found if found.null_count == column.null_count else None
    return pc.cast(column, kind, safe=False)


# -- change events of Debezium ----------------------------------------------------------------------------------------

#: The column of the event's key.
EVENT_KEY = "_key"
#: Name for an undecodable event in the column `_rescued` and in errors.
EVENT = "value"

_NULL = b"default"  # the sink's text for a null key or value
_UNKNOWN = b"?"  # value for entries of neither format; it is not JSON, so the entry is malformed
_DECODER = json.JSONDecoder()
_SCHEMA = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_PAYLOAD = re.compile(r'\s*,\s*"payload"\s*:')


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
    wrapped = pc.fill_null(pc.match_substring_regex(texts, f"^{_SCHEMA.pattern}"), False).to_pylist()
    if not any(wrapped):
        return Payloads(texts, schemas, codes)
    known = {b"": 0}
    head = b""  # start of the previous text, up to its payload; most texts have the same start
    found: list[bytes | None] = []
    for row, text in enumerate(texts.to_pylist()):
        if not wrapped[row]:
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
        begin = _SCHEMA.match(whole)
        schema, end = _DECODER.raw_decode(whole, begin.end() if begin else 0)
    except (ValueError, RecursionError):  # the reader of the payload refuses the text as well
        return b"", {}
    payload = _PAYLOAD.match(whole, end)
    if payload is None:
        return b"", {}
    return whole[: payload.end()].encode(), schema if isinstance(schema, dict) else {}
