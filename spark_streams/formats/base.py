"""Common code of the formats: records as columns, and arrays in the types of columns, and the reverse.

A number fits a column if no digit is lost, and a time fits if it is in range. Structs are matched by the names of their
fields; missing fields are null. A string is parsed like a field's text. A string column accepts any value except bytes
that are not UTF-8: nested values become JSON, and other values become text.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type

from spark_streams.columns import conversion, json_values, json_writer
from spark_streams.columns.conversion import has_text, is_nested, nullable, nullable_offsets, with_scalars
from spark_streams.columns.json_values import Converted, either, in_chunks, joined
from spark_streams.errors import PystreamsError, error, fail
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import Schema, UndecodableError
from streamwire.lazy import compute as pc

_WRONG = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_REFUSED = (*_WRONG, TypeError)
_TIMES = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_duration)
_FAMILIES = (
    *[(each, each) for each in (pa.types.is_boolean, *_TIMES)],
    *[
        (number, other)
        for number in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        for other in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    ],
)


def adapted(column: Any, kind: Any) -> Converted:
    """Return the array as the type `kind`, and a boolean array that flags values that do not fit.

    Flagged values become null. The second result is None if all values fit.
    """
    if not can_adapt(column.type, kind):
        return pa.nulls(len(column), kind), pc.is_valid(column) if column.null_count < len(column) else None

    def fast(some: Any) -> dict[str, Converted] | None:
        if len(some) < len(column):
            some = pa.concat_arrays([some, some.slice(0, 0)])  # a copy, so that the slice has its own offsets
        try:
            return {"": (as_type(some, kind), None)}
        except _WRONG:
            return None

    def slow(some: Any) -> dict[str, Converted]:
        single = (fast(some.slice(row, 1)) for row in range(len(some)))
        made = pa.concat_arrays([pa.nulls(1, kind) if each is None else each[""][0] for each in single])
        return {"": (made, pc.and_(pc.is_valid(some), pc.is_null(made)))}

    return in_chunks(column, fast, slow)[""]


def can_adapt(source: Any, kind: Any) -> bool:
    """Return whether any value of type `source` can fit the type `kind`."""
    try:
        as_type(pa.array([], source), kind)
    except _REFUSED:
        return False
    return True


def as_type(column: Any, kind: Any) -> Any:
    """Return the array as the type `kind`.

    Raises ArrowInvalid if a value does not fit, and TypeError if no value of the array's type can fit.
    """
    source, types = column.type, pa.types
    if source == kind:
        return column
    if types.is_null(source) or types.is_null(kind):
        return pa.nulls(len(column), kind)
    if conversion.is_variant(kind):
        return _read(json_values.from_text_slowly(pc.cast(json_writer.column(column), pa.binary()), kind))
    if types.is_string(kind):
        return _texts(column)
    if types.is_string(source):
        return (
            _read(json_values.from_text_slowly(pc.cast(column, pa.binary()), kind))
            if is_nested(kind)
            else _parsed(column, kind)
        )
    if types.is_struct(source) and types.is_struct(kind):
        at = {field.name: index for index, field in enumerate(source)}
        inner = [
            as_type(column.field(at[field.name]), field.type) if field.name in at else pa.nulls(len(column), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=pc.is_null(column))
    if types.is_list(source) and types.is_list(kind):
        inner = as_type(column.values, kind.value_type)
        return pa.ListArray.from_arrays(nullable_offsets(column), inner, kind)
    if types.is_map(source) and types.is_map(kind):
        keys, items = as_type(column.keys, kind.key_type), as_type(column.items, kind.item_type)
        return pa.MapArray.from_arrays(nullable_offsets(column), keys, items, kind)
    return _scalars(column, kind)


def _scalars(column: Any, kind: Any) -> Any:
    source, types = column.type, pa.types
    if types.is_binary(source) and types.is_binary(kind):
        return column
    if types.is_integer(source) and types.is_duration(kind):
        return pc.cast(pc.cast(column, pa.int64()), kind)
    if types.is_duration(source) and types.is_integer(kind):
        return pc.cast(pc.cast(column, pa.int64()), kind)
    if (
        is_nested(source)
        or is_nested(kind)
        or not any(is_source(source) and is_target(kind) for is_source, is_target in _FAMILIES)
    ):
        raise TypeError(f"{source} as {kind}")
    if types.is_temporal(kind):
        return pc.cast(column, options=pc.CastOptions(kind, allow_time_truncate=True))
    if types.is_integer(source) and types.is_decimal(kind):
        column = pc.cast(column, pa.decimal128(19, 0))
    return pc.cast(column, kind)


def _texts(column: Any) -> Any:
    if pa.types.is_binary(column.type):
        return pc.cast(column, pa.string())
    return json_writer.column(column) if is_nested(column.type) else pc.cast(conversion.to_text(column), pa.string())


def _parsed(column: Any, kind: Any) -> Any:
    if pa.types.is_binary(kind):
        return pc.cast(column, kind)
    return _read((conversion.from_text(pc.cast(column, pa.binary()), kind), None), column)


def _read(found: Converted, column: Any = None) -> Any:
    """Return the converted array. Raises ArrowInvalid if any text was not parsed."""
    made, wrong = found
    if wrong is not None or (column is not None and made.null_count > column.null_count):
        raise pa.ArrowInvalid("a text is not of the type")
    return made


# -- records ----------------------------------------------------------------------------------------------------------

Change = Callable[[Any], Any] | None
#: Raised for a number with more digits than its schema type allows.
_MISFIT = (pa.ArrowInvalid, OverflowError)


@dataclass(frozen=True)
class RecordField:
    """The type of a record's field, or of its items. `arrow`: its Arrow type.

    `read` converts a decoded value to a value for Arrow, and `write` is the reverse. Either is None if the value stays
    the same.
    """

    arrow: Any
    read: Change = None
    write: Change = None
    is_writable: bool = True


@dataclass(frozen=True, eq=False)
class Plan:
    """Types of the fields of records with one schema."""

    fields: dict[str, RecordField]


#: Returns a record, as values for Arrow, and the plan of its schema. Raises UndecodableError.
Decoder = Callable[[bytes], tuple[dict[str, Any], Plan]]


@dataclass(frozen=True)
class RecordReader(ABC):
    """Reads records. `schema`: the reader's schema; None for each value's own schema.

    `registry`: registry with the writers' schemas, which the values' headers identify. Without it, values have no
    header.
    """

    schema: Schema | None
    registry: Registry | None
    source: str

    @abstractmethod
    def decoder(self, names: Iterable[str]) -> Decoder:
        """Return a function that decodes a page's values to at least these fields. It looks up each plan once, because
        hashing the reader for every value takes a tenth of the time.
        """

    def text(self, value: bytes) -> str:
        """Return a value as Base64."""
        return base64.b64encode(value).decode()

    def members(self, texts: Any, kinds: Mapping[str, Any]) -> dict[str, Converted]:
        """Return the columns with these names and types; see `json_values.members`."""
        wrong, decode = np.zeros(len(texts), bool), self.decoder(kinds)
        groups: dict[Any, dict[int, Any]] = {}  # records by plan and row
        for row, value in enumerate(texts.to_pylist()):
            if value is not None:
                try:
                    record, plan = decode(value)
                    groups.setdefault(plan, {})[row] = record
                except UndecodableError:
                    wrong[row] = True
        parts: dict[str, list[Converted]] = {name: [] for name in kinds}
        order: list[int] = []
        for plan, records in groups.items():
            kind = pa.struct([(name, plan.fields[name].arrow) for name in kinds if name in plan.fields])
            try:
                made = pa.array(list(records.values()), kind)
            except _MISFIT:
                for row, record in list(records.items()):
                    try:
                        pa.array([record], kind)
                    except _MISFIT:
                        wrong[row] = True
                        del records[row]
                made = pa.array(list(records.values()), kind)
            order += records
            found = dict(zip(kind.names, made.flatten(), strict=True))
            for name, wanted in kinds.items():
                part = found.get(name)
                parts[name].append((pa.nulls(len(records), wanted), None) if part is None else adapted(part, wanted))
        undecoded = pa.array(wrong) if wrong.any() else None
        return {name: _whole(parts[name], kind, order, len(texts), undecoded) for name, kind in kinds.items()}


def _whole(parts: Sequence[Converted], kind: Any, order: list[int], count: int, undecoded: Any) -> Converted:
    """Return a column that combines these parts. `order`: the rows of the parts' values; other rows are null."""
    if not parts:
        return pa.nulls(count, kind), undecoded
    if len(parts) == 1 and len(order) == count:
        return parts[0]  # all rows are in the part, so no row is undecodable
    column, wrong = joined(parts)
    indexes: list[int | None] = [None] * count
    for index, row in enumerate(order):
        indexes[row] = index
    taken = pa.array(indexes, pa.int32())
    return column.take(taken), either(None if wrong is None else pc.fill_null(wrong.take(taken), False), undecoded)


def spark_fields(kinds: Mapping[str, Any]) -> list[spark.StructField]:
    """Return columns for these Arrow types. Types that this release of Spark lacks become strings."""
    return [spark.StructField(name, spark_type(kind)) for name, kind in kinds.items()]


def spark_type(kind: Any) -> spark.DataType:
    """Return the type of a column for values of an Arrow type."""
    types = pa.types
    if types.is_list(kind):
        return spark.ArrayType(spark_type(kind.value_type))
    if types.is_map(kind):
        return spark.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if types.is_struct(kind) and not conversion.is_variant(kind):
        return spark.StructType([spark.StructField(field.name, spark_type(field.type)) for field in kind])
    try:
        made = from_arrow_type(pa.time64("us") if types.is_time(kind) else kind, True)
    except PySparkException:
        return spark.StringType()
    return made if has_text(made) else spark.StringType()


def check_fields(fields: Any, known: Mapping[str, tuple[Any, bool]], source: str) -> None:
    """Raise SCHEMA_UNUSABLE if a schema cannot represent rows with these Arrow fields.

    `known`: the schema's fields, each with its Arrow type, and whether its values can be written.
    """
    for field in fields:
        kind, is_writable = known.get(field.name, (None, True))
        if kind is None:
            reason = f"it has no field for the column '{field.name}'; its fields are {', '.join(known)}"
        elif not is_writable:
            reason = f"the field '{field.name}' is a union of several types, or a record inside itself"
        elif not can_adapt(field.type, kind):
            reason = f"the column '{field.name}' is {field.type}, which does not fit the field's {kind}"
        else:
            continue
        fail("SCHEMA_UNUSABLE", source=source, reason=reason)


def stored(form: str, name: str, column: Any, kind: Any) -> list[Any]:
    """Return a column's values as the Arrow type `kind`, with dates, times and durations as integers.

    Raises VALUE_NOT_WRITABLE.
    """
    try:
        found = as_type(column, kind)
    except pa.ArrowInvalid as cause:
        raise value_refused(form, None, f"column '{name}': {cause}") from cause
    kind = nullable(with_scalars(found.type, _stored_kind))
    return found.to_pylist() if kind == found.type else found.cast(kind).to_pylist()  # type: ignore[no-any-return]


def _stored_kind(kind: Any) -> Any:
    types = pa.types
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    return pa.int64() if types.is_timestamp(kind) or types.is_time64(kind) or types.is_duration(kind) else kind


def value_refused(form: str, row: int | None, cause: object) -> PystreamsError:
    """Return the error for a row that cannot be encoded with its schema."""
    where = "A row" if row is None else f"Row {row} of a chunk"
    return error("VALUE_NOT_WRITABLE", row=where, format=form, reason=cause)
