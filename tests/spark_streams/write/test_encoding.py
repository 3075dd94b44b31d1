"""Encoding of record batches into chunks of commands, and digests of rows."""

from __future__ import annotations

import itertools
import json
from typing import Any

import hiredis
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from spark_streams.columns.conversion import variant_of
from spark_streams.columns.read_schema import arrow_schema
from spark_streams.config import options
from spark_streams.errors import SchemaError
from spark_streams.write.encoding import RowEncoder, WriteSchema
from spark_streams.write.records import row_hashes

TEXT = spark.StringType()


def test_a_chunk_of_many_columns_has_few_rows() -> None:
    """Chunks of many columns with long names stay below a maximum size, and no row is lost."""
    names = [f"a_rather_long_name_of_a_sensor_in_a_factory_{number}" for number in range(500)]
    rows = 2000
    batch = pa.RecordBatch.from_arrays([pa.array([False, True] * (rows // 2))] * len(names), names)
    schema = WriteSchema.of(spark.StructType([spark.StructField(name, spark.BooleanType()) for name in names]))
    parsed = options.write_options({"url": "redis://localhost", "stream": "s"})
    written, chunks = 0, 0
    for (chunk,) in RowEncoder(parsed, schema).chunks([batch]):
        assert chunk.rows.tolist() == list(range(written, written + len(chunk)))
        assert len(chunk.commands) < 48 << 20
        written, chunks = written + len(chunk), chunks + 1
    assert written == rows
    assert chunks > 1


def _large(kind: Any) -> Any:
    """Return the type that Spark uses with useLargeVarTypes."""
    types = pa.types
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_large(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(_large(kind.key_type), kind.item_field.with_type(_large(kind.item_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_large(field.type)) for field in kind])
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("form", ["fields", "json"])
def test_nulls_and_large_types(form: str, *, is_large: bool) -> None:
    """Null variants, null structs with a variant inside, and the types of useLargeVarTypes are written, as fields and
    as JSON.
    """
    schema = spark.StructType().add("n", spark.StringType()).add("v", spark.VariantType())
    schema.add("s", spark.StructType().add("v", spark.VariantType()).add("at", spark.TimestampType()))
    schema.add("b", spark.ArrayType(spark.BinaryType()))
    schema.add("fields", spark.MapType(spark.StringType(), spark.StringType()))
    kinds = arrow_schema(schema)
    variant = [variant_of('{"a":1}'), None, None]
    # Spark's variants have nulls in their fields if they are null, although these fields are not nullable.
    parts = [pa.array([None if each is None else each[name] for each in variant]) for name in ("value", "metadata")]
    nulls = pa.array([False, True, True])
    variants = pa.StructArray.from_arrays(parts, fields=list(kinds.field("v").type), mask=nulls)
    times = pa.array([0, 0, None], kinds.field("s").type.field("at").type)
    struct = pa.StructArray.from_arrays(
        [variants, times], fields=list(kinds.field("s").type), mask=pa.array([False, False, True])
    )
    columns = [
        pa.array(["x", "y", "z"]),
        variants,
        struct,
        pa.array([[b"a"], [None], None]),
        pa.array([[("k", "v")], [], None], kinds.field("fields").type),
    ]
    if is_large:
        columns = [pa.array(column.to_pylist(), _large(column.type)) for column in columns]
    batch = pa.RecordBatch.from_arrays(columns, schema.fieldNames())
    given = options.write_options({"url": "redis://localhost", "stream": "s", "valueFormat": form})
    encoder = RowEncoder(given, WriteSchema.of(schema, row_field=given.row_field))
    ((rows,),) = encoder.chunks([batch])
    commands = [bytes(rows.commands[at:end]) for at, end in itertools.pairwise(rows.bounds.tolist())]
    words = [_words(command)[3:] for command in commands]
    found = [dict(zip(each[::2], each[1::2], strict=True)) for each in words]
    if form == "fields":
        assert found == [
            {
                b"n": b"x",
                b"v": b'{"a":1}',
                b"s": b'{"v":{"a":1},"at":"1970-01-01T00:00:00Z"}',
                b"b": b'["YQ=="]',
                b"k": b"v",
            },
            {b"n": b"y", b"s": b'{"at":"1970-01-01T00:00:00Z"}', b"b": b"[null]"},
            {b"n": b"z"},
        ]
    else:
        assert [json.loads(each[b"value"]) for each in found] == [
            {
                "n": "x",
                "v": {"a": 1},
                "s": {"v": {"a": 1}, "at": "1970-01-01T00:00:00Z"},
                "b": ["YQ=="],
                "fields": {"k": "v"},
            },
            {"n": "y", "s": {"at": "1970-01-01T00:00:00Z"}, "b": [None], "fields": {}},
            {"n": "z"},
        ]


def _words(command: bytes) -> list[bytes]:
    reader = hiredis.Reader()
    reader.feed(command)
    found: list[bytes] = reader.gets()
    return found


@pytest.mark.parametrize(
    "schema",
    [
        spark.StructType().add("n", spark.LongType()).add("n", spark.LongType()),
        spark.StructType().add("s", spark.StructType().add("n", spark.LongType()).add("n", spark.LongType())),
        spark.StructType().add("s", spark.ArrayType(spark.StructType().add("n", spark.LongType()).add("n", TEXT))),
    ],
)
def test_two_columns_with_the_same_name(schema: spark.StructType) -> None:
    """Two columns or members of a struct with the same name are an error that names them."""
    with pytest.raises(SchemaError, match=r"DUPLICATE_COLUMN.*'n'"):
        WriteSchema.of(schema)


VALUES = st.one_of(
    st.none(), st.binary(max_size=20), st.sampled_from([b"", b"\0", b"x" * 2048, b"x" * 2049, b"x" * 5000])
)
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=9)


def hashes_of(rows: list[tuple[bytes | None, ...]]) -> list[int]:
    """Return the hashes of rows with the fields a and b and an ID."""
    first, second, ids = (pa.array([row[at] for row in rows], pa.binary()) for at in range(3))
    found: list[int] = row_hashes([(b"a", first), (b"b", second)], None, ids, len(rows)).tolist()
    return found


@given(ROWS)
def test_a_rows_hash_depends_on_the_row_alone(rows):
    """The hash of a row depends only on the row, not on its position or neighbours, and different rows have different
    hashes.
    """
    found = hashes_of(rows)
    assert found == [hashes_of([row])[0] for row in rows]
    assert found == hashes_of([*rows, (b"y" * 9000, b"", None)])[: len(rows)]
    assert found == hashes_of([(None, b"z", b"1-1"), *rows])[1:]
    assert len(set(found)) == len(set(rows))


@given(ROWS)
def test_fields_hash_the_same_from_columns_and_from_a_map(rows):
    """Fields in columns and fields in a map, in any order, have the same hash."""
    in_map = [[pair for pair in zip((b"b", b"a"), row[1::-1], strict=True) if pair[1] is not None] for row in rows]
    offsets = [0]
    for pairs in in_map:
        offsets.append(offsets[-1] + len(pairs))
    names, values = (pa.array([pair[at] for pairs in in_map for pair in pairs], pa.binary()) for at in range(2))
    ids = pa.array([row[2] for row in rows], pa.binary())
    found = row_hashes([], (pa.array(offsets, pa.int32()), names, values), ids, len(rows)).tolist()
    assert found == hashes_of(rows)
