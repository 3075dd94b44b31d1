"""Rows in Protobuf: round trips, and malformed values."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams.testing import SchemaRegistry, schema_registry
from spark_streams.errors import PystreamsError
from spark_streams.formats.protobuf import ProtobufReader, ProtobufWriter
from streamclient.formats import protobuf
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import Schema, header

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message Other { string a = 1; }
message Row {
  enum Size { SMALL = 0; LARGE = 1; }
  message Inner { optional int32 x = 1; string y = 2; google.protobuf.Timestamp at = 3; }
  optional bool flag = 1;
  optional int32 int = 2;
  optional sint64 long = 3;
  optional uint32 unsigned = 4;
  optional fixed64 huge = 5;
  optional float float = 6;
  optional double double = 7;
  optional string text = 8;
  optional bytes raw = 9;
  optional Size size = 10;
  google.protobuf.Timestamp at = 11;
  google.protobuf.Duration span = 12;
  google.protobuf.Int64Value wrapped = 13;
  Inner inner = 14;
  repeated Inner list = 15;
  map<string, int64> counts = 16;
  map<int32, Inner> inners = 17;
  repeated string tags = 18;
  oneof choice { string left = 19; int32 right = 20; }
  int32 plain = 21;
  google.protobuf.Struct open = 22;
  Row parent = 23;
}
"""
SCHEMA = Schema("PROTOBUF", protobuf.serialized(PROTO))
INNER = pa.struct([("x", pa.int32()), ("y", pa.string()), ("at", pa.timestamp("us", "UTC"))])
KINDS: dict[str, Any] = {
    "flag": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "unsigned": pa.int64(),
    "huge": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "raw": pa.binary(),
    "size": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "span": pa.duration("us"),
    "wrapped": pa.int64(),
    "inner": INNER,
    "list": pa.list_(INNER),
    "counts": pa.map_(pa.string(), pa.int64()),
    "inners": pa.map_(pa.int32(), INNER),
    "tags": pa.list_(pa.string()),
    "plain": pa.int32(),
}
_AT = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
_INNER = st.fixed_dictionaries(
    {"x": st.none() | st.integers(-(2**31), 2**31 - 1), "y": st.text(), "at": st.none() | _AT}
)
_NULLABLE = {
    "flag": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "unsigned": st.integers(0, 2**32 - 1),
    "huge": st.integers(0, 2**64 - 1).map(Decimal),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "text": st.text(),
    "raw": st.binary(),
    "size": st.sampled_from(["SMALL", "LARGE"]),
    "at": _AT,
    "span": st.integers(-(10**17), 10**17),
    "wrapped": st.integers(-(2**63), 2**63 - 1),
    "inner": _INNER,
}
_ROW = {
    **{name: st.none() | each for name, each in _NULLABLE.items()},
    "list": st.lists(_INNER, max_size=3),
    "counts": st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1), max_size=3).map(
        lambda each: [*each.items()]
    ),
    "inners": st.dictionaries(st.integers(0, 9), _INNER, max_size=3).map(lambda each: sorted(each.items())),
    "tags": st.lists(st.text(), max_size=3),
    "plain": st.integers(-(2**31), 2**31 - 1),
}


def read(schema: Schema, values: list[bytes | None], registry: Registry | None = None, **kinds: Any) -> Any:
    """Return columns of these types as lists."""
    reader = ProtobufReader(schema, registry, "of the test", "Row")
    columns = reader.members(pa.array(values, pa.binary()), kinds)
    return {name: (column.to_pylist(), wrong and wrong.to_pylist()) for name, (column, wrong) in columns.items()}


def ordered(column: Any) -> list[Any]:
    """Return the values with sorted maps, because maps in Protobuf have no order."""
    if not pa.types.is_map(column.type):
        return list(column.to_pylist())
    return [sorted(each, key=lambda pair: pair[0]) for each in column.to_pylist()]


@given(st.lists(st.fixed_dictionaries(_ROW), min_size=1, max_size=4))
def test_rows_are_read_back(rows: list[dict[str, Any]]) -> None:
    """Every column type that Protobuf supports is unchanged after a round trip, with nulls if the
    field has presence.
    """
    columns = [pa.array([row[name] for row in rows], kind) for name, kind in KINDS.items()]
    writer = ProtobufWriter(SCHEMA, None, "of the test", "Row")
    writer.check([pa.field(name, kind) for name, kind in KINDS.items()])
    values = writer.values(list(KINDS), columns, len(rows))
    back = ProtobufReader(SCHEMA, None, "of the test", "shop.Row").members(values, KINDS)
    for (name, (column, wrong)), was in zip(back.items(), columns, strict=True):
        assert ordered(column) == ordered(was), name
        assert wrong is None


def test_an_empty_message_has_zeros_and_nulls() -> None:
    """In an empty message, a field without presence is zero, one with presence is null, and a repeated one is empty; a
    missing value is null.
    """
    kinds = {"plain": pa.int32(), "int": pa.int32(), "left": pa.string(), "tags": pa.list_(pa.string()), "inner": INNER}
    assert read(SCHEMA, [b"", None], **kinds) == {
        "plain": ([0, None], None),
        "int": ([None, None], None),
        "left": ([None, None], None),
        "tags": ([[], None], None),
        "inner": ([None, None], None),
    }


def test_open_types_are_json() -> None:
    """A Struct and a recursive message are read and written as JSON text."""
    kinds = {"open": pa.string(), "parent": pa.string()}
    columns = [pa.array(['{"a":[1.0,null]}']), pa.array(['{"plain": 5}'])]
    values = ProtobufWriter(SCHEMA, None, "of the test", "Row").values(list(kinds), columns, 1)
    back = read(SCHEMA, values.to_pylist(), **kinds)
    assert back["open"] == (['{"a":[1.0,null]}'], None)
    assert '"plain":5' in back["parent"][0][0]


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def test_the_header_names_schema_and_message(server: SchemaRegistry) -> None:
    """Each value is read with the schema and message that its header names, and written with such a header."""
    first = server.add("s-value", PROTO, "PROTOBUF")
    second = server.add("t-value", 'syntax = "proto3"; message New { string a = 1; int32 b = 2; }', "PROTOBUF")
    registry = Registry.at(server.url)
    values: list[bytes | None] = [
        header(first, (0,)) + b"\x0a\x01x",
        header(second, (0,)) + b"\x0a\x01y\x10\x05",
        header(first, (7,)),
        header(99, (0,)),
        None,
    ]
    wrong = [False, False, True, True, False]
    assert read(SCHEMA, values, registry, a=pa.string(), b=pa.int32()) == {
        "a": (["x", "y", None, None, None], wrong),
        "b": ([None, 5, None, None, None], wrong),
    }
    writer = ProtobufWriter(SCHEMA, first, "of the test", "Row")
    assert writer.values(["plain"], [pa.array([5])], 1).to_pylist() == [header(first, (1,)) + b"\xa8\x01\x05"]


def test_rows_that_a_message_cannot_hold_are_refused() -> None:
    """Columns that do not fit the message are rejected at the start; values that do not fit fail the task."""
    writer = ProtobufWriter(SCHEMA, None, "of the test", "Row")
    for name, kind in (("nope", pa.int32()), ("inner", pa.int32())):
        with pytest.raises(PystreamsError, match="SCHEMA_UNUSABLE"):
            writer.check([pa.field(name, kind)])
    for name, column in (
        ("tags", pa.array([["a", None]])),
        ("size", pa.array(["MEDIUM"])),
        ("int", pa.array([2**40])),
        ("huge", pa.array([-1])),
        ("open", pa.array(["no JSON"])),
    ):
        with pytest.raises(PystreamsError, match="VALUE_NOT_WRITABLE"):
            writer.values([name], [column], 1)
