"""Rows in Avro: round trips, schema evolution, and malformed values."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams.testing import SchemaRegistry, schema_registry
from spark_streams.errors import PystreamsError
from spark_streams.formats import avro
from spark_streams.formats.avro import AvroReader, AvroWriter
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import Schema, header

INNER = pa.struct([("x", pa.int16()), ("y", pa.string()), ("at", pa.timestamp("us", "UTC"))])
KINDS: dict[str, Any] = {
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "raw": pa.binary(),
    "price": pa.decimal128(20, 4),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "clock": pa.time64("us"),
    "span": pa.duration("us"),
    "list": pa.list_(INNER),
    "map": pa.map_(pa.string(), pa.list_(pa.int64())),
    "inner": INNER,
}
FIELDS = [pa.field(name, kind) for name, kind in KINDS.items()]

_MICROS = st.integers(-(2**62), 2**62)
_INNER = st.fixed_dictionaries(
    {"x": st.none() | st.integers(-(2**15), 2**15 - 1), "y": st.none() | st.text(), "at": st.none() | _MICROS}
)
_ROW = {
    "flag": st.booleans(),
    "tiny": st.integers(-128, 127),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "text": st.text(),
    "raw": st.binary(),
    "price": st.decimals(min_value=-(10**15), max_value=10**15, places=4),
    "day": st.integers(-(2**31), 2**31 - 1),
    "at": _MICROS,
    "local": _MICROS,
    "clock": st.integers(0, 86_399_999_999),
    "span": _MICROS,
    "list": st.lists(st.none() | _INNER, max_size=3),
    "map": st.lists(st.tuples(st.text(), st.none() | st.lists(st.none() | _MICROS)), unique_by=lambda pair: pair[0]),
    "inner": _INNER,
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | each for name, each in _ROW.items()}), min_size=1, max_size=4)


def read(schema: Any, values: list[bytes | None], **kinds: Any) -> dict[str, tuple[list[Any], list[bool] | None]]:
    """Return columns of these types, read with the schema."""
    reader = AvroReader(Schema("AVRO", json.dumps(schema)), None, "of the test")
    return found(reader.members(pa.array(values, pa.binary()), kinds))


def found(columns: Any) -> dict[str, tuple[list[Any], list[bool] | None]]:
    return {
        name: (column.to_pylist(), None if wrong is None else wrong.to_pylist())
        for name, (column, wrong) in columns.items()
    }


def record(*fields: tuple[Any, ...], name: str = "Row") -> Any:
    made = [dict(zip(("name", "type", "default", "aliases"), field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": made}


def written(schema: Any, row: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return buffer.getvalue()


def condition(made: Any) -> str:
    with pytest.raises(PystreamsError) as raised:
        made()
    return raised.value.condition


@given(ROWS)
def test_rows_are_read_back(rows: list[dict[str, Any]]) -> None:
    """Every column type that Avro supports is unchanged after a round trip with a schema made from the columns."""
    columns = [pa.array([row[name] for row in rows], kind) for name, kind in KINDS.items()]
    schema = avro.schema_of(FIELDS)
    writer = AvroWriter(schema, None, "of the test")
    writer.check(FIELDS)
    values = writer.values(list(KINDS), columns, len(rows))
    back = AvroReader(schema, None, "of the test").members(values, KINDS)
    assert {name: wrong for name, (_, wrong) in back.items()} == dict.fromkeys(KINDS)
    assert [column for column, _ in back.values()] == columns


def test_a_schema_gives_the_types_of_the_columns() -> None:
    """Columns inferred from an Avro schema have the Spark types that hold its values."""
    reader = AvroReader(avro.schema_of(FIELDS), None, "of the test")
    kinds = {field.name: field.dataType.simpleString() for field in reader.fields()}
    assert kinds["inner"] == "struct<x:int,y:string,at:timestamp>"
    assert kinds["map"] == "map<string,array<bigint>>"
    assert (kinds["price"], kinds["day"], kinds["local"]) == ("decimal(20,4)", "date", "timestamp_ntz")


def test_types_that_spark_does_not_write_are_read() -> None:
    """Avro types that Spark does not write can be read: enums, fixed, UUIDs, other time units, and unions."""
    tree = record(("value", "int"), ("next", ["null", "Tree"]), name="Tree")
    schema = record(
        ("enum", {"type": "enum", "name": "Size", "symbols": ["S", "L"]}),
        ("fixed", {"type": "fixed", "name": "Two", "size": 2}),
        ("uuid", {"type": "string", "logicalType": "uuid"}),
        ("uuid16", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}),
        ("price", {"type": "fixed", "name": "P", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2}),
        ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
        ("ns", {"type": "long", "logicalType": "local-timestamp-nanos"}),
        ("clock", {"type": "int", "logicalType": "time-millis"}),
        ("number", ["int", "long", "null"]),
        ("either", ["null", "string", {"type": "array", "items": "long"}]),
        ("tree", tree),
    )
    identifier = uuid.UUID(int=5)
    row = {
        "enum": "L",
        "fixed": b"ab",
        "uuid": str(identifier),
        "uuid16": identifier.bytes,
        "price": Decimal("12.50"),
        "ms": 1500,
        "ns": 1_500_000_000,
        "clock": 1500,
        "number": 2**40,
        "either": [1, 2],
        "tree": {"value": 1, "next": {"value": 2, "next": None}},
    }
    kinds = {
        "enum": pa.string(),
        "fixed": pa.binary(),
        "uuid": pa.string(),
        "uuid16": pa.string(),
        "price": pa.decimal128(8, 3),
        "ms": pa.timestamp("us", "UTC"),
        "ns": pa.timestamp("us"),
        "clock": pa.time64("us"),
        "number": pa.int64(),
        "either": pa.string(),
        "tree": pa.struct([("value", pa.int32()), ("next", pa.string())]),
        "absent": pa.int32(),
    }
    back = read(schema, [written(schema, row)], **kinds)
    assert {name: values[0] for name, (values, _) in back.items()} == {
        "enum": "L",
        "fixed": b"ab",
        "uuid": str(identifier),
        "uuid16": str(identifier),
        "price": Decimal("12.500"),
        "ms": datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=datetime.UTC),
        "ns": datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000),  # noqa: DTZ001 - a local time has no zone
        "clock": datetime.time(0, 0, 1, 500_000),
        "number": 2**40,
        "either": "[1,2]",
        "tree": {"value": 1, "next": '{"value":2,"next":null}'},
        "absent": None,
    }
    writable = record(*[(each["name"], each["type"]) for each in schema["fields"][:9]])
    names = [each["name"] for each in writable["fields"]]
    columns = [pa.array(back[name][0], kinds[name]) for name in names]
    again = AvroWriter(Schema("AVRO", json.dumps(writable)), None, "of the test").values(names, columns, 1)
    assert again.to_pylist() == [written(writable, row)]


def test_columns_may_have_other_types_than_the_schema() -> None:
    """A column may have a narrower or convertible type than the schema, and only a value that does not fit is
    malformed.
    """
    schema = record(("n", "long"), ("s", "string"), ("r", record(("a", "int"), ("b", "int"), name="R")))
    rows = [{"n": n, "s": s, "r": {"a": n % 100, "b": 1}} for n, s in ((5, "12"), (2**40, "x"), (7, "-3"))]
    back = read(
        schema,
        [written(schema, row) for row in rows],
        n=pa.int32(),
        s=pa.int64(),
        r=pa.struct([("b", pa.int64()), ("c", pa.string())]),
    )
    assert back["n"] == ([5, None, 7], [False, True, False])
    assert back["s"] == ([12, None, -3], [False, True, False])
    assert back["r"] == ([{"b": 1, "c": None}] * 3, None)
    assert read(schema, [written(schema, rows[0])], n=pa.string(), r=pa.string(), s=pa.binary()) == {
        "n": (["5"], None),
        "r": (['{"a":5,"b":1}'], None),
        "s": ([b"12"], None),
    }
    assert read(schema, [written(schema, rows[0])], n=pa.timestamp("us"), r=pa.int32()) == {
        "n": ([None], [True]),
        "r": ([None], [True]),
    }


def test_bytes_of_another_schema_are_malformed() -> None:
    """A truncated value, an empty value, or one with trailing bytes is malformed, and all its columns are null."""
    schema = record(("n", "long"), ("s", "string"))
    good = written(schema, {"n": 1, "s": "a"})
    back = read(schema, [good, good[:-1], None, good + b"x", b"", good], n=pa.int64(), s=pa.string())
    wrong = [False, True, False, True, True, False]
    assert back == {"n": ([1, None, None, None, None, 1], wrong), "s": (["a", None, None, None, None, "a"], wrong)}


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def test_old_values_are_read_with_the_readers_schema(server: SchemaRegistry) -> None:
    """Old values are read with the reader's schema: defaults for new fields, aliases for renamed
    ones, and wider types.
    """
    old = record(("id", "int"), ("name", "string"), ("gone", "string"))
    new = record(("id", "long"), ("who", "string", "?", ["name"]), ("size", "int", 3))
    first, second = server.add("s-value", json.dumps(old)), server.add("s-value", json.dumps(new))
    registry = Registry.at(server.url)
    latest = registry.latest("s-value")
    assert latest is not None
    texts = pa.array(
        [
            header(first) + written(old, {"id": 1, "name": "ann", "gone": "x"}),
            header(second) + written(new, {"id": 2**40, "who": "bob", "size": 4}),
            b"no header",
            header(77) + b"x",
        ]
    )
    kinds = {"id": pa.int64(), "who": pa.string(), "size": pa.int32()}
    wrong = [False, False, True, True]
    assert found(AvroReader(latest.schema, registry, "of the subject").members(texts, kinds)) == {
        "id": ([1, 2**40, None, None], wrong),
        "who": (["ann", "bob", None, None], wrong),
        "size": ([3, 4, None, None], wrong),
    }
    # Without a reader's schema the values are read as they were written.
    assert found(AvroReader(None, registry, "").members(texts, kinds))["who"] == ([None, "bob", None, None], wrong)


@pytest.mark.parametrize(
    ("schema", "columns", "reason"),
    [
        (record(("a", "int")), {"b": pa.int32()}, "no field for the column 'b'; its fields are a"),
        (record(("a", "int"), ("c", "string")), {"a": pa.int32()}, "field 'c' has no default"),
        (record(("a", "int")), {"a": pa.list_(pa.int32())}, "does not fit the field's int32"),
        (record(("a", ["int", "string"])), {"a": pa.string()}, "union of several types"),
        ("int", {"a": pa.int32()}, "not the schema of a record"),
    ],
)
def test_rows_that_a_schema_cannot_hold_are_refused_at_the_start(
    schema: Any, columns: dict[str, Any], reason: str
) -> None:
    """Columns that do not fit the schema are rejected before anything is written, with the reason."""
    writer = AvroWriter(Schema("AVRO", json.dumps(schema)), None, "of the test")
    with pytest.raises(PystreamsError, match=f"SCHEMA_UNUSABLE.*{reason}"):
        writer.check([pa.field(name, kind) for name, kind in columns.items()])


def test_a_row_that_does_not_fit_is_an_error() -> None:
    """A null, a number that is too large, or an unknown enum symbol fails the write; a map without string keys has no
    Avro schema.
    """
    schema = record(("n", "int"), ("e", {"type": "enum", "name": "E", "symbols": ["A"]}))
    writer = AvroWriter(Schema("AVRO", json.dumps(schema)), None, "of the test")
    for numbers, texts in (([1, None], ["A", "A"]), ([1, 2**40], ["A", "A"]), ([1, 2], ["A", "B"])):
        columns = [pa.array(numbers, pa.int64()), pa.array(texts)]
        assert condition(lambda columns=columns: writer.values(["n", "e"], columns, 2)) == "VALUE_NOT_WRITABLE"
    assert condition(lambda: avro.schema_of([pa.field("m", pa.map_(pa.int32(), pa.int32()))])) == "UNSUPPORTED_TYPE"
