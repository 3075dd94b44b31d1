"""Fast decoder of Avro records, compared with the slow decoder."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_streams.formats import avro
from spark_streams.formats.avro import AvroReader
from streamclient.formats.schemas import Schema
from tests.spark_streams.formats.test_avro import record, written

SYMBOLS = ["A", "B", "C"]
SCHEMA = record(
    ("flag", "boolean"),
    ("int", ["null", "int"], None),
    ("long", "long"),
    ("float", "float"),
    ("double", ["double", "null"]),
    ("text", ["null", "string"], None),
    ("raw", "bytes"),
    ("enum", {"type": "enum", "name": "E", "symbols": SYMBOLS}),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("day", ["null", {"type": "int", "logicalType": "date"}], None),
)
KINDS: dict[str, Any] = {
    "flag": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "raw": pa.binary(),
    "enum": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
}
ROW = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "int": st.none() | st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.none() | st.floats(allow_nan=False),
        "text": st.none() | st.text(max_size=300),
        "raw": st.binary(max_size=9),
        "enum": st.sampled_from(SYMBOLS),
        "at": st.integers(-(2**63), 2**63 - 1),
        "day": st.none() | st.integers(-(2**31), 2**31 - 1),
    }
)
READER = AvroReader(Schema("AVRO", json.dumps(SCHEMA)), None, "of the test")


def same(values: list[bytes | None], kinds: dict[str, Any]) -> None:
    """Assert that both decoders give the same columns and the same malformed values."""
    texts = pa.array(values, pa.binary())
    fast, slow = READER.members(texts, kinds), READER.members_slowly(texts, kinds)
    for name in kinds:
        # Arrow treats NaNs as different, so such columns are equal only as texts.
        assert fast[name][0].equals(slow[name][0]) or str(fast[name][0]) == str(slow[name][0]), name
        flags = [[False] * len(values) if each is None else each.to_pylist() for _, each in (fast[name], slow[name])]
        assert flags[0] == flags[1], name


@given(st.lists(ROW, min_size=1, max_size=5), st.sets(st.sampled_from(list(KINDS)), min_size=1))
def test_valid_records_are_read_fast(rows: list[Any], names: set[str]) -> None:
    """The fast decoder reads valid records like the slow decoder, for any selection of columns."""
    values = [written(SCHEMA, row) for row in rows]
    kinds = {name: KINDS[name] for name in KINDS if name in names}
    texts = pa.array([b"x", *values], pa.binary()).slice(1)
    assert READER._columns(texts, kinds) is not None
    same(list(values), kinds)


@given(st.data(), st.lists(ROW, min_size=1, max_size=4))
def test_both_decoders_agree_on_damaged_records(data: st.DataObject, rows: list[Any]) -> None:
    """Both decoders agree on damaged records, random bytes and nulls."""
    values: list[bytes | None] = []
    for row in rows:
        value = bytearray(written(SCHEMA, row))
        at = data.draw(st.integers(0, len(value) - 1))
        change = data.draw(st.sampled_from(["none", "byte", "cut", "more", "random", "null"]))
        if change == "byte":
            value[at] = data.draw(st.integers(0, 255))
        elif change == "cut":
            del value[at:]
        elif change == "more":
            value[at:at] = data.draw(st.binary(max_size=11))
        elif change == "random":
            value = bytearray(data.draw(st.binary(max_size=40)))
        values.append(None if change == "null" else bytes(value))
    same(values, KINDS)


def test_other_types_are_left_to_the_slow_decoder() -> None:
    """Nested types, decimals, fixed and unions of several types are left to the slow decoder."""
    for kind in (
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        record(("a", "int"), name="Inner"),
        ["null", "int", "string"],
    ):
        assert avro.plain_fields(record(("x", kind)), {}) is None
