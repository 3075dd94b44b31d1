"""Facts shared by reading and writing: the connector's own columns, the map of all fields, types with a text form."""

from __future__ import annotations

from pyspark.sql import types as spark

from spark_streams.columns.types import table
from spark_streams.errors import fail

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
SCALARS = tuple(
    getattr(spark, name)
    for name in (*(name for each in table.SCALARS for name in each.spark), "VariantType")
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
        return isinstance(kind.keyType, SCALARS) and has_text(kind.valueType)
    return isinstance(kind, SCALARS)
