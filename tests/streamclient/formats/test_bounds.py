"""Bounds of decoding: values and schemas are rejected if they cost far more time or memory than their size suggests."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from spark_streams.formats.avro import AvroReader
from spark_streams.formats.protobuf import ProtobufReader
from streamclient.errors import PystreamsError
from streamclient.formats import protobuf
from streamclient.formats.decoder import Decoder
from streamclient.formats.schemas import ITEMS, LEVELS, Schema, UndecodableError

MANY = 200_000  # more than a value of any size below may have
EMPTY = {"type": "record", "name": "E", "fields": []}
FIXED = {"type": "fixed", "name": "F", "size": 0}
ENUM = {"type": "enum", "name": "C", "symbols": ["a", "b"]}
SMALL = {"type": "record", "name": "S", "fields": [{"name": "b", "type": "boolean"}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20_000, "scale": 2}
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
RECURSIVE = {"type": "record", "name": "R", "fields": [{"name": "r", "type": {"type": "array", "items": "R"}}]}
PROTO = """
syntax = "proto3";
import "google/protobuf/any.proto";
message N { N one = 1; repeated N many = 2; map<string, N> map = 3; google.protobuf.Any any = 4; bytes blob = 5; }
"""


def number(value: int) -> bytes:
    """Return an integer in Avro's encoding."""
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def within(tag: int, message: bytes) -> bytes:
    """Return a field in Protobuf's length-delimited encoding."""
    return bytes([tag << 3 | 2]) + varint(len(message)) + message


def avro(kind: Any) -> Decoder:
    return Decoder("avro", schema=Schema("AVRO", json.dumps(kind)))


def record(kind: Any) -> Callable[[], Decoder]:
    return functools.partial(avro, {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]})


def array(kind: Any) -> Callable[[], Decoder]:
    return record({"type": "array", "items": kind})


@functools.cache
def message() -> Decoder:
    return Decoder("protobuf", schema=Schema("PROTOBUF", protobuf.serialized(PROTO)))


def laughs(width: int = 2, depth: int = 40) -> Any:
    """Return a schema in which each record contains two records of the next type; the last type has no fields."""
    kind: Any = EMPTY
    for level in range(depth):
        fields = [{"name": f"f{at}", "type": kind["name"] if at else kind} for at in range(width)]
        kind = {"type": "record", "name": f"L{level}", "fields": fields}
    return kind


BOMBS: dict[str, tuple[Callable[[], Decoder], bytes]] = {
    "avro nulls": (array("null"), number(10**9) + b"\0"),
    "avro empty records": (array(EMPTY), number(10**9) + b"\0"),
    "avro fixed without bytes": (array(FIXED), number(10**9) + b"\0"),
    "avro nulls in a block with a size": (array("null"), number(-(10**9)) + b"\0\0"),
    "avro nulls below the limit of time": (array("null"), number(ITEMS + 1) + b"\0"),
    "avro negative number without a positive": (array("int"), number(-(2**63)) + b"\0\0"),
    "avro most negative index in a union": (record(["null", "int"]), number(-(2**63)) + b"\2"),
    "avro small records": (array(SMALL), number(MANY) + b"\1" * MANY + b"\0"),
    "avro records in themselves": (functools.partial(avro, RECURSIVE), number(MANY) + b"\0" * (MANY + 1)),
    "avro records in records": (functools.partial(avro, laughs()), b""),
    "avro levels": (functools.partial(avro, NODE), b"\2" * (LEVELS + 1) + b"\0"),
    "avro many levels in a union": (functools.partial(avro, ["null", NODE]), b"\2" * 1_000_000 + b"\0"),
    "avro integer without an end": (functools.partial(avro, RECURSIVE), b"\xff" * MANY),
    "avro decimal": (record(DECIMAL), number(40_000) + b"\x7f" * 40_000),
    "avro decimal above its precision": (record({**DECIMAL, "precision": 4}), number(2) + b"\x7f\xff"),
    "messagepack lists with announced sizes": (Decoder, (b"\xdd" + (MANY - 1).to_bytes(4)) * 1000 + b"\xc0" * MANY),
    "messagepack empty maps": (Decoder, b"\xdd" + MANY.to_bytes(4) + b"\x80" * MANY),
    "messagepack levels": (Decoder, b"\x91" * (LEVELS + 1) + b"\xc0"),
    "json levels": (Decoder, b"[" * (LEVELS + 1) + b"]" * (LEVELS + 1)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_value_beyond_a_bound_is_refused(name: str) -> None:
    """A value is malformed if it expands a few bytes to many items, or nests deeply."""
    decoder, value = BOMBS[name]
    with pytest.raises(UndecodableError):
        decoder().decode(value)


def test_a_deeply_nested_any_is_refused() -> None:
    """A value with too many nested `Any` messages is malformed."""
    value = b""
    for _ in range(600):
        value = within(4, within(1, b"x/N") + within(2, value))
    with pytest.raises(UndecodableError):
        message().decode(value)


DENSE: dict[str, tuple[Callable[[], Decoder], bytes, Callable[[Any], int]]] = {
    "avro": (
        array(SMALL),
        number(ITEMS - 1000) + b"\1" * (ITEMS - 1000) + b"\0",
        lambda found: len(found["a"]),
    ),
    "avro booleans": (array("boolean"), number(300_000) + b"\1" * 300_000 + b"\0", lambda found: len(found["a"])),
    "messagepack": (Decoder, msgpack.packb([{"a": 1000}] * 60_000), len),
    "json": (Decoder, json.dumps(["[{" * 200_000, {"a": [1]}]).encode(), len),
}


@pytest.mark.parametrize("name", DENSE)
def test_a_long_value_within_the_bounds_is_decoded(name: str) -> None:
    """Large scalars, texts and values with many records are decoded if they are within the bounds."""
    decoder, value, size = DENSE[name]
    assert size(decoder().decode(value).value)


def test_long_values_of_avro_are_decoded_like_short_values() -> None:
    """A value whose items are counted is decoded like one that cannot exceed a bound."""
    kind = {
        "type": "record",
        "name": "Item",
        "fields": [
            {"name": "n", "type": ["null", "long"]},
            {"name": "c", "type": ENUM},
            {"name": "d", "type": {**DECIMAL, "precision": 9}},
            {"name": "m", "type": {"type": "map", "values": "string"}},
        ],
    }
    item = b"\2" + number(-5) + number(1) + number(2) + b"\xff\x85" + number(1) + number(1) + b"k" + number(1) + b"v\0"
    expected = {"n": -5, "c": "b", "d": "-1.23", "m": {"k": "v"}}
    for count in (2, 20_000):
        found = array(kind)().decode(number(count) + item * count + b"\0").value["a"]
        assert found == [expected] * count


def test_a_number_that_is_too_large_is_a_text() -> None:
    """A number too large for a float is returned as its text, as NaN is, because JSON has no infinity."""
    found = Decoder().decode(b'{"a": 1e999, "b": -1e999, "c": NaN, "d": 1e300}').value
    assert found == {"a": "1e999", "b": "-1e999", "c": "NaN", "d": 1e300}


def test_a_schema_that_is_too_wide_or_too_deep_is_unusable() -> None:
    """A schema, for example from a registry, whose nested types expand to too many columns is unusable."""
    deep: Any = "int"
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    texts = "".join(f"message L{at} {{ L{at + 1} a = 1; L{at + 1} b = 2; }}\n" for at in range(40))
    proto = protobuf.serialized(f'syntax = "proto3";\n{texts}message L40 {{ int32 a = 1; }}')
    for unusable in (
        lambda: AvroReader(Schema("AVRO", json.dumps(laughs())), None, "of the test").fields(),
        lambda: ProtobufReader(Schema("PROTOBUF", proto), None, "of the test", "L0").fields(),
        record(deep),
    ):
        with pytest.raises(PystreamsError) as raised:
            unusable()
        assert raised.value.condition == "SCHEMA_UNUSABLE"
