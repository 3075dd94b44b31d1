"""Types of columns, and the conversion of text to typed columns and of typed columns to text.

`from_text` reads text as Spark's CSV source does; text that is not of the type becomes null. `to_text` returns text
that `from_text` converts back to the same value. Both convert whole Arrow arrays. `from_text` uses Arrow if the result
certainly equals the result of the scalar fallback, `from_text_slowly`; otherwise it uses the fallback. To add a type,
define its `ScalarType` in `scalars` or `times`, and add it to `SCALARS`.

The connector's own columns and the map of all fields are the same for reading and writing.
"""

from __future__ import annotations

import decimal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import types as spark
from pyspark.sql.variant_utils import VariantUtils

from spark_streams.columns.scalars import BINARY, BOOLEAN, DECIMAL, FLOAT, INTEGER, NULL, STRING, ScalarType, reading
from spark_streams.columns.times import DATE, INTERVAL, TIME
from spark_streams.columns.times import TIMESTAMP as MOMENT
from spark_streams.config import time_zones
from spark_streams.errors import fail
from streamclient.config.option import parsed
from streamwire.lazy import compute as pc

# -- Spark's variant: a struct of two binaries, converted by Spark's own code -----------------------------------------

_WRONG = (PySparkException, RecursionError, OverflowError, IndexError, ArithmeticError)
_EXACT = decimal.Context(prec=76)  # twice the digits of Spark's decimals


def is_variant(kind: Any) -> bool:
    """Return whether the Arrow type is a variant, which Spark marks in the metadata of its second field."""
    return (
        pa.types.is_struct(kind) and kind.num_fields == 2 and (kind.field(1).metadata or {}).get(b"variant") == b"true"
    )


def variant_of(text: str) -> dict[str, bytes]:
    """Return the variant of a JSON text. Raises ValueError if the text is not JSON, or too large for a variant."""
    try:
        value, metadata = VariantUtils.parse_json(text)
    except _WRONG as refused:
        raise ValueError(text) from refused
    return {"value": value, "metadata": metadata}


def variant_to_python(value: dict[str, bytes]) -> Any:
    """Return a variant as Python values: dictionaries, lists, strings, bytes, numbers, booleans, dates, times in UTC
    and None.
    """
    with decimal.localcontext(_EXACT):  # Spark's code multiplies decimals; the default context rounds to 28 digits
        return VariantUtils.to_python(value["value"], value["metadata"])


# -- the table of types -----------------------------------------------------------------------------------------------

SCALARS = (STRING, BINARY, BOOLEAN, INTEGER, FLOAT, DECIMAL, DATE, MOMENT, TIME, INTERVAL, NULL)
_BY_ID = {number: each for each in SCALARS for number in each.ids}


def scalar(kind: Any) -> ScalarType:
    """Return the record of an Arrow type that is not nested. Raises TypeError if the type has no text form."""
    found = _BY_ID.get(kind.id)
    if found is None:
        raise TypeError(f"{kind} has no text form")
    return found


def is_nested(kind: Any) -> bool:
    """Return whether values of the type are written as JSON in a field."""
    return bool(pa.types.is_list(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind))


def with_scalars(kind: Any, changed: Callable[[Any], Any]) -> Any:
    """Return the type with each scalar type in it replaced by the result of `changed`. Variants are not changed."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_scalars(kind.value_type, changed)))
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(with_scalars(kind.key_type, changed))
        return pa.map_(key, kind.item_field.with_type(with_scalars(kind.item_type, changed)))
    if is_variant(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_scalars(field.type, changed)) for field in kind])
    return changed(kind)


_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.null(): pa.string()}


def nullable(kind: Any) -> Any:
    """Return the type with all fields nullable, because Arrow cannot cast a null struct whose fields are not; with
    32-bit offsets in place of Spark's `useLargeVarTypes`; and without nulls as a type, because Arrow casts parts of a
    list of them to invalid arrays.
    """
    types = pa.types
    if types.is_list(kind):
        return pa.list_(_nullable_field(kind.value_field))
    if types.is_map(kind):
        return pa.map_(kind.key_field.with_type(nullable(kind.key_type)), _nullable_field(kind.item_field))
    if types.is_struct(kind):
        return pa.struct([_nullable_field(field) for field in kind])
    return _PLAIN.get(kind, kind)


def _nullable_field(field: Any) -> Any:
    return field.with_type(nullable(field.type)).with_nullable(True)


def retyped(column: Any, kind: Any) -> Any:
    """Return the array as a type that differs only in zones and in nullability.

    Unlike Arrow's cast, this keeps nulls in fields that are not nullable, e.g. of a null variant.
    """
    types = pa.types
    if column.type == kind:
        return column
    if types.is_struct(kind):
        parts = [retyped(column.field(at), field.type) for at, field in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if types.is_list(kind):
        return pa.ListArray.from_arrays(nullable_offsets(column), retyped(column.values, kind.value_type), kind)
    if types.is_map(kind):
        keys, items = retyped(column.keys, kind.key_type), retyped(column.items, kind.item_type)
        return pa.MapArray.from_arrays(nullable_offsets(column), keys, items, kind)
    return column.cast(kind)


def nullable_offsets(column: Any) -> Any:
    """Return the offsets of a list or map array; an offset is null if its value is null."""
    if not column.null_count:
        return column.offsets
    nulls = pa.concat_arrays([column.is_null(), pa.array([False])])
    return pc.if_else(nulls, pa.scalar(None, pa.int32()), column.offsets)


# -- time zones -------------------------------------------------------------------------------------------------------

_SETTING = "spark.sql.session.timeZone"
_SETTINGS = "runner_conf"  # pyspark's name of the variable


def of_session(home: str | None) -> str | None:
    """Return the zone of the session that runs this task; None if it is unknown.

    Spark resolves the zone (session, `-Duser.timezone`, machine) and passes it with the settings of pyspark's worker.
    They are in a local variable of the functions that unpickle a task, so this is called while a reader is unpickled.
    Outside of SQL executions (`df.rdd`) they are Spark's defaults. Then `home`, if it is known, is the session's zone.
    """
    context = TaskContext.get()
    if home and (context is None or context.getLocalProperty("spark.sql.execution.id") is None):
        return parsed(_SETTING, time_zones.parse, home)
    frame: FrameType | None = sys._getframe(1)  # not its own, which would be in a reference cycle
    while frame is not None:
        # A look at `f_locals` keeps a frame's variables alive, so look only where the name exists.
        code = frame.f_code
        settings = frame.f_locals.get(_SETTINGS) if _SETTINGS in code.co_varnames + code.co_cellvars else None
        if settings is not None:  # a dict in Spark 4.0
            name = settings.timezone if hasattr(settings, "timezone") else settings.get(_SETTING)
            return parsed(_SETTING, time_zones.parse, name) if name else None
        frame = frame.f_back
    return None


def type_in(kind: Any, zone: str) -> Any:
    """Return the Arrow type with its zones replaced by this one."""
    return with_scalars(kind, lambda leaf: pa.timestamp(leaf.unit, zone) if getattr(leaf, "tz", None) else leaf)


def array_in(column: Any, zone: str) -> Any:
    """Return the column with this zone; the moments do not change."""
    kind = type_in(column.type, zone)
    return column if kind == column.type else column.cast(kind)


# -- columns that are not fields, and types with a text form ----------------------------------------------------------

ID, STREAM, TIMESTAMP, MS, SEQ = "_id", "_stream", "_timestamp", "_ms", "_seq"
DELIVERIES, FIELDS = "_deliveries", "fields"
#: Column with a JSON object: the name and the original text of each column whose value did not parse.
RESCUED = "_rescued"
#: The connector's own columns with their allowed types; the first is the default.
RESERVED: dict[str, tuple[type[spark.DataType], ...]] = {
    ID: (spark.StringType,),
    STREAM: (spark.StringType,),
    TIMESTAMP: (spark.TimestampType, spark.TimestampNTZType),
    MS: (spark.LongType,),
    SEQ: (spark.LongType,),
    DELIVERIES: (spark.IntegerType, spark.LongType),
}
SPARK_SCALARS = tuple(
    getattr(spark, name)
    for name in (*(name for each in SCALARS for name in each.spark), "VariantType")
    if hasattr(spark, name)
)
_TEXTS = (spark.StringType, spark.BinaryType)


def attributes() -> spark.StructType:
    """Return the columns that a read has in addition to the entries' fields, unless the user's schema names others."""
    return spark.StructType(
        [spark.StructField(name, kinds[0]()) for name, kinds in RESERVED.items() if name != DELIVERIES]
    )


def check_reserved(field: spark.StructField) -> None:
    """Raise RESERVED_COLUMN if this is one of the connector's own columns and its type is not allowed."""
    kinds = RESERVED[field.name]
    if not isinstance(field.dataType, kinds):
        expected = kinds[0]().simpleString()
        fail("RESERVED_COLUMN", column=field.name, type=field.dataType.simpleString(), expected=expected)


def is_fields_map(field: spark.StructField) -> bool:
    """Return whether the column is the map of all fields."""
    kind = field.dataType
    return (
        field.name == FIELDS
        and isinstance(kind, spark.MapType)
        and isinstance(kind.keyType, _TEXTS)
        and isinstance(kind.valueType, _TEXTS)
    )


def has_text(kind: spark.DataType) -> bool:
    """Return whether values of the type have a text form: scalars, and structs, arrays and maps of scalars as JSON.

    Year-month intervals have no text form, because Spark does not support them in Python data sources.
    """
    if isinstance(kind, spark.StructType):
        return all(has_text(field.dataType) for field in kind.fields)
    if isinstance(kind, spark.ArrayType):
        return has_text(kind.elementType)
    if isinstance(kind, spark.MapType):
        return isinstance(kind.keyType, SPARK_SCALARS) and has_text(kind.valueType)
    return isinstance(kind, SPARK_SCALARS)


# -- text -------------------------------------------------------------------------------------------------------------


def from_text(column: Any, target: Any, epochs: int | None = None) -> Any:
    """Return the binary array `column` as the type `target`; null if a text is missing or is not of the type.

    A time without a zone is in the zone of `target`. `epochs`: unit of times that are numbers, see `times.epochs_of`.
    """
    fast = scalar(target).read_fast
    if fast is not None:
        try:
            result = fast(column, target, epochs)
        except pa.ArrowInvalid:  # the error does not identify the value; the fallback finds it
            result = None
        if result is not None:
            return result
    return from_text_slowly(column, target, epochs)


def from_text_slowly(column: Any, target: Any, epochs: int | None = None) -> Any:
    """Return the result of `from_text`, converting one value at a time. This is the definition of the text forms."""
    if pa.types.is_binary(target):
        return column
    read = scalar(target).read(target, epochs)
    return pa.array([None if value is None else reading(read, value) for value in column.to_pylist()], target)


def without(column: Any, text: bytes) -> Any:
    """Return the binary array with this text replaced by null."""
    same = pc.equal(column, pa.scalar(text, column.type))
    if not pc.any(same, min_count=0).as_py():
        return column
    return pc.if_else(same, pa.scalar(None, column.type), column)


def to_text(column: Any) -> Any:
    """Return the column as a binary array of text, null for null. Raises TypeError for types without a text form.

    A time with a zone is written in that zone, with its offset.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return scalar(column.type).show(column)
