"""Columns of a read: conversion of a page of entries to a record batch, and handling of malformed values.

A column is one of

* an attribute of the entry: `_id`, `_stream`, `_timestamp`, `_ms`, `_seq`, `_deliveries`;
* a map of all fields of the entry, named `fields`;
* one field of the entry;
* a member of a value that contains all columns. Such a value is in `row_field`, or is Debezium's change event.

An entry with a value that does not fit its column's type is *malformed* and is handled according to the option `mode`.

A column that is null in all rows of a task suggests a misspelt name or a wrong type. Tasks of batch reads, and of the
first batch after a query's start, look for such columns (`FieldCheck`). With the option `requireFields`, a task raises
an error. Otherwise each worker process logs one warning per list of columns.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from spark_streams.columns import conversion, json_values
from spark_streams.columns.conversion import (
    DELIVERIES,
    FIELDS,
    ID,
    MS,
    RESCUED,
    RESERVED,
    SEQ,
    STREAM,
    TIMESTAMP,
    check_reserved,
    has_text,
    is_fields_map,
    is_nested,
    retyped,
    scalar,
)
from spark_streams.columns.json_values import Converted, Schema, either
from spark_streams.columns.scalars import json_object, quoted
from spark_streams.columns.times import epochs_of
from spark_streams.config import time_zones
from spark_streams.config.common import Mode
from spark_streams.config.read import ReadOptions
from spark_streams.errors import error, fail
from streamclient.codec.reply import Page
from streamclient.formats.schemas import UndecodableError
from streamwire.lazy import compute as pc
from streamwire.lazy import difflib

DEFAULT = "_id string, _stream string, _timestamp timestamp, _ms bigint, _seq bigint, fields map<string,string>"
DEFAULT_BINARY = DEFAULT.replace("map<string,string>", "map<binary,binary>")

#: The stream of a page, or the page's streams in order, each with its number of entries.
Origin = str | Sequence[tuple[str, int]]

_LATEST_MS = (2**63 - 1) // 1000  # later times do not fit 64 bits in microseconds
_SHOWN = 80  # maximum characters of a value in an error
_MOST_BYTES = 1 << 28  # maximum size of the values of several entries in a record batch


class ValueReader(Protocol):
    """Extracts columns from values that contain whole rows."""

    def members(self, texts: Any, kinds: Mapping[str, Any]) -> dict[str, Converted]:
        """Return the columns with these names and types; see `json_values.members`."""

    def text(self, value: bytes) -> str:
        """Return a malformed value as text, for the corrupt record."""

    def member_texts(self, value: bytes) -> dict[str, str]:
        """Return each member of a value as JSON text. Raises UndecodableError if the value cannot be decoded."""


@dataclass(frozen=True)
class ReadSchema:
    """The columns of a read. `arrow`: the schema that Spark expects of every batch.

    `null_value`: text that is read as null. `zone`: zone of times whose text names no zone. If it is None, the
    session's zone applies (`in_session`). `home`: the session's zone when the read was defined. `epochs`: see
    `times.epochs_of`. `requires_fields`: whether a column without any value is an error. `reader`: reader of the values
    in `row_field`, if they are not plain JSON.
    """

    arrow: Any
    mode: Mode = "PERMISSIVE"
    corrupt: str = "_corrupt_record"
    row_field: str | None = None
    is_debezium: bool = False
    null_value: bytes | None = None
    zone: str | None = None
    home: str | None = None
    epochs: int | None = None
    requires_fields: bool = False
    reader: ValueReader | None = None

    @classmethod
    def of(
        cls,
        schema: spark.StructType,
        options: ReadOptions | None = None,
        reader: ValueReader | None = None,
    ) -> ReadSchema:
        """Return the schema. Raises RESERVED_COLUMN or UNSUPPORTED_TYPE if a column cannot be read."""
        corrupt = "_corrupt_record" if options is None else options.corrupt
        for field in schema.fields:
            kind = field.dataType
            if field.name in RESERVED:
                check_reserved(field)
            elif field.name in (corrupt, RESCUED):
                if not isinstance(kind, spark.StringType):
                    fail("RESERVED_COLUMN", column=field.name, type=kind.simpleString(), expected="string")
            elif not is_fields_map(field) and not has_text(kind):
                fail("UNSUPPORTED_TYPE", column=field.name, type=kind.simpleString(), done="read from a field")
        arrow = arrow_schema(schema)
        if options is None:
            return cls(arrow)
        return cls(
            arrow,
            options.mode,
            corrupt,
            options.row_field,
            is_debezium=options.value_format == "debezium",
            null_value=None if options.null_value is None else options.null_value.encode(),
            zone=options.zone,
            home=options.session_zone,
            epochs=epochs_of(options.timestamp_format),
            requires_fields=options.requires_fields,
            reader=reader,
        )

    def in_session(self) -> ReadSchema:
        """Return the schema with the zone of the session that runs this task, unless an option sets the zone."""
        return self if self.zone is not None else replace(self, zone=conversion.of_session(self.home))

    @property
    def counts_deliveries(self) -> bool:
        """Whether a column needs the number of deliveries."""
        return DELIVERIES in self.arrow.names

    def field_columns(self) -> list[str]:
        """Return the names of columns that are read from a field of the entry or a member of its value. Columns of type
        void are omitted.
        """
        return [field.name for field in self.arrow if not self._is_special(field) and not pa.types.is_null(field.type)]

    def needed_fields(self) -> list[bytes] | None:
        """Return the fields that the columns need; None for all fields."""
        if self.is_debezium or any(field.name == FIELDS and pa.types.is_map(field.type) for field in self.arrow):
            return None
        if self.corrupt in self.arrow.names:
            return None
        if self.row_field is not None:
            return [self.row_field.encode()]
        return [name.encode() for name in dict.fromkeys(self.field_columns())]

    def batches(
        self,
        page: Page,
        stream: Origin,
        deliveries: Any = None,
        mask: Any = None,
        counts: Counter[str] | None = None,
        most: int = _MOST_BYTES,
    ) -> Iterator[tuple[Page, Any]]:
        """Yield the page as record batches (see `batch`), each with its part of the page. `most`: maximum size of the
        values of several entries in a part, in bytes.
        """
        parts = page.parts(most)
        if len(parts) == 1:
            yield page, self.batch(page, stream, deliveries, mask, counts)
            return
        first = 0
        for part in parts:
            rows = slice(first, first + part.count)
            origin = [(_stream_at(stream, row), 1) for row in range(rows.start, rows.stop)]
            delivered, kept = (None if each is None else each[rows] for each in (deliveries, mask))
            yield part, self.batch(part, origin, delivered, kept, counts)
            first = rows.stop

    def batch(
        self,
        page: Page,
        stream: Origin,
        deliveries: Any = None,
        mask: Any = None,
        counts: Counter[str] | None = None,
    ) -> Any:
        """Return the page as a record batch. `mask`, a boolean array, selects the rows; None selects all.

        `deliveries` is an int32 array of each entry's number of deliveries; None if the numbers are unknown. Values
        that do not fit are counted by column in `counts`. Raises NULL_IN_COLUMN for a null in a column that is not
        nullable. In mode FAILFAST, the first malformed entry raises MALFORMED_ENTRY.
        """
        columns: list[Any] = []
        malformed: Any = None
        misfits: list[tuple[Any, Any]] = []  # columns, each with a boolean array of the rows that do not fit
        first: tuple[int, Any] | None = None  # the first row that does not fit, and its column
        originals = _Originals(self, page)
        rows = self._members(originals)
        for field in self.arrow:
            column, wrong = self._column(field, page, stream, deliveries, rows)
            columns.append(column)
            if wrong is not None:
                wrong = wrong if mask is None else pc.and_(wrong, mask)
                row = pc.index(wrong, True).as_py()
                if row >= 0 and (first is None or row < first[0]):
                    first = row, field
                malformed = either(malformed, wrong)
                misfits.append((field, wrong))
        if first is not None and self.mode == "FAILFAST":
            self._fail(first[1], originals, stream, first[0])
        for field, wrong in misfits if counts is not None else ():
            counts[field.name] += pc.sum(wrong).as_py() or 0  # type: ignore[index]
        if not columns:
            batch = pa.RecordBatch.from_struct_array(pa.array([{}] * page.count, pa.struct([])))
        else:
            if self.corrupt in self.arrow.names:
                columns[self.arrow.get_field_index(self.corrupt)] = self._records(originals, malformed)
            if RESCUED in self.arrow.names:
                columns[self.arrow.get_field_index(RESCUED)] = self._rescued(originals, misfits)
            batch = pa.RecordBatch.from_arrays(columns, schema=self.arrow)
        if malformed is not None and self.mode == "DROPMALFORMED":
            mask = pc.invert(malformed) if mask is None else pc.and_(mask, pc.invert(malformed))
        batch = batch if mask is None else batch.filter(mask)
        for field, column in zip(self.arrow, batch.columns, strict=True):
            if not field.nullable and column.null_count:
                row = pc.index(pc.is_null(column), True).as_py()
                row = row if mask is None else pc.indices_nonzero(mask)[row].as_py()
                entry, name = page.ids()[row].as_py().decode(), _stream_at(stream, row)
                fail("NULL_IN_COLUMN", stream=name, entry=entry, column=field.name)
        return batch

    def _members(self, originals: _Originals) -> dict[str, Converted]:
        """Return the columns that are members of a value. An entry without the value's field is malformed."""
        texts = originals.texts
        kinds = {field.name: self._read_as(field.type) for field in self.arrow if not self._is_special(field)}
        if texts is None or not kinds:
            return {}
        if originals.events is None:
            read = json_values.members if self.reader is None else self.reader.members
            absent = pc.is_null(texts) if texts.null_count else None
            return {name: (column, either(wrong, absent)) for name, (column, wrong) in read(texts, kinds).items()}
        keys, events = originals.events
        found: dict[str, Converted] = {}
        if json_values.EVENT_KEY in kinds:
            kind = kinds.pop(json_values.EVENT_KEY)
            found = keys.read(lambda some, schema: {json_values.EVENT_KEY: self._typed(some, kind, schema)})
        if kinds:
            found |= events.read(lambda some, schema: json_values.members(some, kinds, schema))
        return found

    def _is_special(self, field: Any) -> bool:
        """Return whether a column is neither a field of the entry nor a member of a value."""
        name = field.name
        return name in RESERVED or name in (self.corrupt, RESCUED) or (name == FIELDS and pa.types.is_map(field.type))

    def _read_as(self, kind: Any) -> Any:
        return conversion.type_in(kind, self.zone or time_zones.UTC)

    def _column(self, field: Any, page: Page, stream: Origin, deliveries: Any, rows: dict[str, Converted]) -> Converted:
        """Return a column, and a boolean array that flags values that do not fit its type; None if all values fit."""
        name, kind = field.name, field.type
        if name == FIELDS and pa.types.is_map(kind):
            return _without_nulls(*self._map(page, kind))
        if self._is_special(field):
            return self._special(name, kind, page, stream, deliveries), None
        column, wrong = rows[name] if name in rows else self._field(name, self._read_as(kind), page)
        return _without_nulls(retyped(column, kind), wrong)

    def _special(self, name: str, kind: Any, page: Page, stream: Origin, deliveries: Any) -> Any:
        if name == ID:
            return pc.cast(page.ids(), kind)
        if name == STREAM:
            return _streams(stream, page.count).cast(kind)
        if name == TIMESTAMP:
            return _timestamps(page.milliseconds(), kind)
        if name == MS:
            return page.milliseconds()
        if name == SEQ:
            return page.sequences()
        if name == DELIVERIES:
            return pa.nulls(page.count, kind) if deliveries is None else pc.cast(deliveries, kind)
        return pa.nulls(page.count, kind)  # the corrupt record and the rescued texts, filled after all other columns

    def _field(self, name: str, kind: Any, page: Page) -> Converted:
        if pa.types.is_null(kind):
            return pa.nulls(page.count), None
        if not self._null_is_number:
            from_page = None if is_nested(kind) else scalar(kind).from_page
            numbers = None if from_page is None else from_page(page, name.encode(), kind)
            if numbers is not None:
                return numbers, None
        return self._typed(self._with_nulls(page.column(name.encode())), kind)

    def _typed(self, text: Any, kind: Any, schema: Schema | None = None) -> Converted:
        if is_nested(kind):
            return json_values.from_text(text, kind, schema)
        column = conversion.from_text(text, kind, self.epochs)
        return column, _wrong(text, column, kind)

    @cached_property
    def _null_is_number(self) -> bool:
        """Whether the text that represents null is also a number."""
        return (
            self.null_value is not None
            and not conversion.from_text(pa.array([self.null_value]), pa.float64()).null_count
        )

    def _with_nulls(self, texts: Any) -> Any:
        return texts if self.null_value is None else conversion.without(texts, self.null_value)

    def _map(self, page: Page, target: Any) -> Converted:
        """Return the map of all fields, without names that do not fit the key type.

        An entry is malformed if a name or a value does not fit.
        """
        offsets, names, texts = page.fields()
        texts = self._with_nulls(texts)
        keys = conversion.from_text(names, target.key_type)
        items = conversion.from_text(texts, target.item_type)
        wrong: Any = None
        if items.null_count > texts.null_count:
            wrong = _any_in_row(offsets, pc.and_(items.is_null(), texts.is_valid()))
        if keys.null_count:
            bounds = offsets.to_numpy()
            nameless = _any_in_row(offsets, keys.is_null())
            wrong = nameless if wrong is None else pc.or_(wrong, nameless)
            offsets = pa.array(bounds - _counts_before(keys.is_null())[bounds], pa.int32())
            keys, items = keys.drop_null(), items.filter(keys.is_valid())
        return pa.MapArray.from_arrays(offsets, keys, items, target), wrong

    def _records(self, originals: _Originals, malformed: Any) -> Any:
        """Return the original of each malformed entry (`_Originals.record`); null for other entries."""
        records: list[str | None] = [None] * originals.page.count
        if malformed is not None:
            for row in np.flatnonzero(malformed.to_numpy(zero_copy_only=False)).tolist():
                records[row] = originals.record(row)
        return pa.array(records, self.arrow.field(self.corrupt).type)

    def _rescued(self, originals: _Originals, misfits: list[tuple[Any, Any]]) -> Any:
        """Return for each malformed entry a JSON object of the values that did not fit; null for other entries."""
        found: dict[int, dict[str, str]] = {}
        for field, wrong in misfits:
            texts = originals.column(field)
            for row in np.flatnonzero(wrong.to_numpy(zero_copy_only=False)).tolist():
                name, text = self._original(originals, row, field, texts)
                found.setdefault(row, {})[name] = text
        count = originals.page.count
        return pa.array([json_object(found[row]) if row in found else None for row in range(count)], pa.string())

    def _original(self, originals: _Originals, row: int, field: Any, texts: Any) -> tuple[str, str]:
        """Return a column's name and its original value: a field's text as a JSON string, or a member's JSON text.

        If a value cannot be decoded, return the complete value with the name of its field.
        """
        if texts is not None:
            return field.name, quoted((texts[row].as_py() or b"").decode("utf-8", "backslashreplace"))
        if field.name == FIELDS and pa.types.is_map(field.type):
            return FIELDS, originals.entry(row)
        members = originals.members(row)
        if isinstance(members, UndecodableError):
            value = originals.texts[row].as_py()
            return self.row_field or json_values.EVENT, "null" if value is None else quoted(originals.text(value))
        return field.name, members.get(field.name, "null")

    def _fail(self, field: Any, originals: _Originals, origin: Origin, row: int) -> None:
        page = originals.page
        entry, stream = page.ids()[row].as_py().decode(), _stream_at(origin, row)
        texts = originals.column(field)
        is_map = field.name == FIELDS and pa.types.is_map(field.type)
        members = originals.members(row) if texts is None and not is_map else None
        if is_map:
            name, text = FIELDS, _shown(originals.entry(row).encode())
            found = f"text that is not UTF-8 (read it with fieldsType=binary): {text}"
        elif isinstance(members, UndecodableError):
            value = originals.texts[row].as_py()
            name = self.row_field or json_values.EVENT
            found = "no value" if value is None else f"the value '{_shown(value)}', which cannot be decoded: {members}"
        else:
            name = field.name if self.row_field is None else self.row_field
            value = texts[row].as_py() if members is None else members.get(field.name, "null").encode()
            found = (
                f"the text '{_shown(value or b'')}', which does not fit the type {_type_name(field.type)} of column "
                f"'{field.name}'"
            )
        fail("MALFORMED_ENTRY", stream=stream, entry=entry, field=name, found=found)


class _Originals:
    """Original values of a page, for columns that are members of a value, for the two columns with malformed values,
    and for errors.

    `texts`: the values that contain all columns; None if each column is a field of its own. `events`: the keys and the
    events of Debezium; None for other formats.
    """

    def __init__(self, schema: ReadSchema, page: Page) -> None:
        self.page = page
        self._schema = schema
        self.events = json_values.payloads(page) if schema.is_debezium else None
        self.texts: Any = None
        if self.events is not None:
            self.texts = self.events[1].texts
        elif schema.row_field is not None:
            self.texts = page.column(schema.row_field.encode())
        self._members: dict[int, dict[str, str] | UndecodableError] = {}

    def column(self, field: Any) -> Any:
        """Return the texts from which a column was read; None if it is a member of a value or the map of all fields."""
        if field.name == FIELDS and pa.types.is_map(field.type):
            return None
        if self.events is not None and field.name == json_values.EVENT_KEY:
            return self.events[0].texts
        return self.page.column(field.name.encode()) if self.texts is None else None

    def members(self, row: int) -> dict[str, str] | UndecodableError:
        """Return the JSON text of each member of a value that contains all columns, or why it cannot be decoded."""
        if row not in self._members:
            value = self.texts[row].as_py()
            reader = self._schema.reader
            try:
                if value is None and self.events is None:
                    raise UndecodableError("it is missing")
                texts = json_values.member_texts if reader is None else reader.member_texts
                self._members[row] = texts(value or b"")
            except UndecodableError as problem:
                self._members[row] = problem
        return self._members[row]

    def text(self, value: bytes) -> str:
        """Return the text of a value that contains all columns."""
        reader = self._schema.reader
        return str(value.decode("utf-8", "replace")) if reader is None else reader.text(value)

    def record(self, row: int) -> str:
        """Return the malformed value as text if it contains all columns.

        If each column is a field, if the value is missing, and for Debezium, return the whole entry as JSON.
        """
        value = self.texts[row].as_py() if self.texts is not None and self.events is None else None
        return self.entry(row) if value is None else self.text(value)

    def entry(self, row: int) -> str:
        """Return all fields of an entry as JSON."""
        offsets, names, texts = self._fields
        first, last = offsets[row].as_py(), offsets[row + 1].as_py()
        pairs = zip(names[first:last].to_pylist(), texts[first:last].to_pylist(), strict=True)
        return json.dumps(
            {name.decode("utf-8", "replace"): text.decode("utf-8", "replace") for name, text in pairs},
            ensure_ascii=False,
        )

    @cached_property
    def _fields(self) -> tuple[Any, Any, Any]:
        return self.page.fields()


def _without_nulls(column: Any, wrong: Any) -> Converted:
    """Return the column with null for each value that has a null where its type allows none. They do not fit either."""
    found = _nulls_inside(column)
    if found is None or not pc.any(found, min_count=0).as_py():
        return column, wrong
    return pc.if_else(found, pa.scalar(None, column.type), column), either(wrong, found)


def _nulls_inside(column: Any) -> Any:
    """Return a boolean array that flags values with a null that their type does not allow; None without such values."""
    kind, types = column.type, pa.types
    found: Any = None
    if types.is_struct(kind) and not conversion.is_variant(kind):
        for at, field in enumerate(kind):
            found = either(found, _nulls_in(column.field(at), field))
    elif types.is_list(kind) or types.is_map(kind):
        inner = (column.values, kind.value_field) if types.is_list(kind) else (column.items, kind.item_field)
        within = _nulls_in(*inner)
        found = None if within is None else _any_in_row(column.offsets, within)
    return None if found is None else pc.and_(found, column.is_valid())


def _nulls_in(column: Any, field: Any) -> Any:
    nulls = column.is_null() if not field.nullable and column.null_count else None
    return either(nulls, _nulls_inside(column))


def _stream_at(origin: Origin, row: int) -> str:
    """Return the stream of a page's row."""
    if isinstance(origin, str):
        return origin
    ends = np.cumsum([count for _, count in origin])
    return origin[int(np.searchsorted(ends, row, side="right"))][0]


def _shown(value: bytes) -> str:
    """Return the start of a value as printable text."""
    text = value.decode("utf-8", "backslashreplace")
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _type_name(kind: Any) -> str:
    """Return the name of a column's type in Spark."""
    if conversion.is_variant(kind):
        return "variant"
    try:
        return str(from_arrow_type(kind).simpleString())
    except PySparkException:  # a type with a variant inside
        return str(kind)


def _streams(origin: Origin, count: int) -> Any:
    """Return the stream of each of `count` rows."""
    if isinstance(origin, str):
        return pa.repeat(pa.scalar(origin), count)
    indexes = np.repeat(np.arange(len(origin)), [size for _, size in origin])
    return pa.array([name for name, _ in origin]).take(pa.array(indexes))


def _counts_before(flags: Any) -> Any:
    """Return the number of true elements before each index of a boolean array, and before its end."""
    return np.concatenate(([0], np.cumsum(flags.to_numpy(zero_copy_only=False))))


def _any_in_row(offsets: Any, flags: Any) -> Any:
    """Return for each row whether any of its fields is flagged. Row `i` has fields `offsets[i]` to `offsets[i + 1]`."""
    return pa.array(np.diff(_counts_before(flags)[offsets.to_numpy()]) > 0)


def arrow_schema(schema: spark.StructType) -> Any:
    """Return the Arrow schema that Spark expects of a batch.

    Spark's function has a zone argument only in some releases.
    """
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_zone else to_arrow_schema(schema)


def _wrong(text: Any, column: Any, kind: Any) -> Any:
    """Return a boolean array that flags texts that do not fit the column's type; None if all texts fit.

    For some types, an empty text is null, as in Spark's CSV source.
    """
    if column.null_count == text.null_count:
        return None
    wrong = pc.and_(pc.is_valid(text), pc.is_null(column))
    if scalar(kind).empty_is_null:
        wrong = pc.and_(wrong, pc.not_equal(pc.binary_length(pc.fill_null(text, b"")), 0))
    return wrong


def _timestamps(milliseconds: Any, target: Any) -> Any:
    top = pc.max(milliseconds).as_py()
    if top is not None and top > _LATEST_MS:
        milliseconds = pc.if_else(pc.greater(milliseconds, _LATEST_MS), pa.scalar(None, pa.int64()), milliseconds)
    return pc.cast(pc.multiply(milliseconds, 1000), target)


_log = logging.getLogger("spark_streams")
_SAMPLE = 100  # number of entries from which the message takes field names
_MOST = 12  # maximum number of columns, and of fields, in the message
_COMPARED = 1000  # maximum number of field names that are compared with the name of a missing column
_warned: set[str] = set()


class FieldCheck:
    """Check of one task: `see` records each page, and `finish` reports columns that never had a value."""

    def __init__(self, schema: ReadSchema) -> None:
        self._schema = schema
        names = Counter(schema.field_columns())
        self._empty = [name for name, count in names.items() if count == 1]  # a duplicate name identifies no column
        self._rows = 0
        self._fields: set[str] = set()

    def see(self, page: Page, batch: Any) -> None:
        """Record a page and the record batch made from it."""
        if not self._empty or not batch.num_rows:
            return
        if not self._rows:
            self._fields = self._names(page)
        self._rows += batch.num_rows
        self._empty = [name for name in self._empty if batch.column(name).null_count == batch.num_rows]

    def finish(self, streams: list[str]) -> None:
        """Raise or log FIELDS_MISSING or FIELDS_UNREADABLE for columns without any value. Call this after all rows."""
        if not self._empty or not self._rows:
            return
        known = sorted(self._fields)
        missing = [name for name in self._empty if name not in self._fields]
        unreadable = [name for name in self._empty if name in self._fields]
        if missing:
            near = [difflib.get_close_matches(name, known[:_COMPARED], n=1) for name in missing[:_MOST]]
            nearest = _listed([name for (name, *_) in filter(None, near)]) or "none"
            self._report("FIELDS_MISSING", missing, streams, fields=_first(known), nearest=nearest)
        if unreadable:
            self._report("FIELDS_UNREADABLE", unreadable, streams)

    def _report(self, condition: str, columns: list[str], streams: list[str], **further: str) -> None:
        named = _first(columns)
        problem = error(condition, columns=named, rows=self._rows, streams=_listed(streams), **further)
        if self._schema.requires_fields:
            raise problem
        if named not in _warned:
            _warned.add(named)
            _log.warning("%s", problem)

    def _names(self, page: Page) -> set[str]:
        """Return the field names in the page's first entries.

        If one value contains all columns, return the names of the JSON members in the first entry's value instead.
        """
        objects = _Originals(self._schema, page).texts
        if objects is not None:
            found = json_values.object_in(objects[0].as_py())
            return {name.encode("utf-8", "replace").decode() for name in found or {}}
        offsets, names, _ = page.fields()
        last = offsets[min(_SAMPLE, page.count)].as_py()
        return {name.decode("utf-8", "replace") for name in pa.array(names.slice(0, last)).unique().to_pylist()}


def _first(names: list[str]) -> str:
    return _listed(names[:_MOST]) + (", ..." if len(names) > _MOST else "")


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
