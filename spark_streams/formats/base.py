"""Functions that the formats share.

They turn rows of several schemas into columns, convert dates and times to integers, and map Arrow types to Spark types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import variants
from spark_streams.columns.json_reference import Converted
from spark_streams.columns.names import has_text
from spark_streams.columns.types.table import nullable, with_scalars
from spark_streams.errors import PystreamsError, error
from spark_streams.formats.adaptation import adapted
from streamclient.formats.schemas import UndecodableError
from streamwire.lazy import compute as pc

#: Raised for a number with more digits than its schema type allows, and for a field that cannot be written as JSON.
_MISFIT = (pa.ArrowInvalid, OverflowError, UndecodableError)


class Rows:
    """The values of a page, one for each entry, grouped by the plan that decoded them."""

    def __init__(self) -> None:
        self.wrong: list[int] = []
        self.count = 0
        self.groups: dict[Any, tuple[list[int], list[Any]]] = {}

    def add(self, value: Any, plan: Any = None, *, wrong: bool = False) -> None:
        """Add the next entry's value: decoded with `plan`, missing (None), or undecodable (`wrong`)."""
        if plan is not None:
            numbers, values = self.groups.setdefault(plan, ([], []))
            numbers.append(self.count)
            values.append(value)
        elif wrong:
            self.wrong.append(self.count)
        self.count += 1


def columns_of(
    rows: Rows, kinds: Mapping[str, Any], arrays: Callable[[Any, list[Any], list[str]], dict[str, Any]]
) -> dict[str, Converted]:
    """Return the columns with the names and types in `kinds`.

    `arrays(plan, values, names)` returns the arrays of those fields in `names` that a plan has.
    """
    names = list(kinds)
    parts: dict[str, list[Converted]] = {name: [] for name in names}
    order: list[int] = []
    for plan, (numbers, values) in rows.groups.items():
        try:
            found = arrays(plan, values, names)
        except _MISFIT:
            numbers, values = _that_fit(rows, plan, arrays, names)
            found = arrays(plan, values, names)
        order += numbers
        for name, kind in kinds.items():
            part = found.get(name)
            parts[name].append((pa.nulls(len(numbers), kind), None) if part is None else adapted(part, kind))
    flags = np.zeros(rows.count, bool)
    flags[rows.wrong] = True
    undecoded = pa.array(flags) if rows.wrong else None
    return {name: _whole(parts[name], kinds[name], order, rows.count, undecoded) for name in names}


def _that_fit(rows: Rows, plan: Any, arrays: Callable[..., Any], names: list[str]) -> tuple[list[int], list[Any]]:
    """Return the numbers of the rows that fit the plan's types, and their values. Record other rows as malformed."""
    numbers, values = [], []
    for number, value in zip(*rows.groups[plan], strict=True):
        try:
            arrays(plan, [value], names)
        except _MISFIT:
            rows.wrong.append(number)
        else:
            numbers.append(number)
            values.append(value)
    return numbers, values


def _whole(parts: Sequence[Converted], kind: Any, order: list[int], count: int, undecoded: Any) -> Converted:
    """Return a column that combines these parts. `order`: the rows of the parts' values; other rows are null."""
    if not parts:
        return pa.nulls(count, kind), undecoded
    if len(parts) == 1 and len(order) == count:
        return parts[0]  # all rows are in the part, so no row is undecodable
    column = pa.concat_arrays([column for column, _ in parts])
    indexes: list[int | None] = [None] * count
    for index, row in enumerate(order):
        indexes[row] = index
    taken = pa.array(indexes, pa.int32())
    column = column.take(taken)
    if all(wrong is None for _, wrong in parts):
        return column, undecoded
    wrong = pa.concat_arrays(
        [pa.repeat(pa.scalar(False), len(part)) if wrong is None else wrong for part, wrong in parts]
    )
    wrong = pc.fill_null(wrong.take(taken), False)
    return column, wrong if undecoded is None else pc.or_(wrong, undecoded)


def stored(column: Any) -> list[Any]:
    """Return the values of an array as a list, with dates, times and durations as integers."""
    kind = nullable(with_scalars(column.type, _stored_kind))
    return column.to_pylist() if kind == column.type else column.cast(kind).to_pylist()  # type: ignore[no-any-return]


def _stored_kind(kind: Any) -> Any:
    types = pa.types
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    return pa.int64() if types.is_timestamp(kind) or types.is_time64(kind) or types.is_duration(kind) else kind


def spark_fields(kinds: Mapping[str, Any]) -> list[spark.StructField]:
    """Return columns for these Arrow types. Types that this release of Spark lacks become strings."""
    return [spark.StructField(name, spark_type(kind)) for name, kind in kinds.items()]


_SPARK: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (pa.types.is_boolean, "BooleanType"),
    (pa.types.is_int32, "IntegerType"),
    (pa.types.is_integer, "LongType"),
    (pa.types.is_float32, "FloatType"),
    (pa.types.is_floating, "DoubleType"),
    (pa.types.is_string, "StringType"),
    (pa.types.is_binary, "BinaryType"),
    (pa.types.is_date, "DateType"),
    (pa.types.is_time, "TimeType"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, "TimestampNTZType"),
    (pa.types.is_timestamp, "TimestampType"),
    (pa.types.is_duration, "DayTimeIntervalType"),
)


def spark_type(kind: Any) -> spark.DataType:
    """Return the type of a column for values of an Arrow type."""
    types = pa.types
    if types.is_list(kind):
        return spark.ArrayType(spark_type(kind.value_type))
    if types.is_map(kind):
        return spark.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if types.is_struct(kind) and not variants.is_variant(kind):
        return spark.StructType([spark.StructField(field.name, spark_type(field.type)) for field in kind])
    if types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    name = next((name for is_kind, name in _SPARK if is_kind(kind)), "StringType")
    made: spark.DataType = getattr(spark, name, spark.StringType)()
    return made if has_text(made) else spark.StringType()


def value_refused(form: str, row: int | None, cause: object) -> PystreamsError:
    """Return the error for a row that cannot be encoded with its schema."""
    where = "A row" if row is None else f"Row {row} of a chunk"
    return error("VALUE_NOT_WRITABLE", row=where, format=form, reason=cause)
