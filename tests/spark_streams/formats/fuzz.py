"""Fuzz test of the value formats: ``python -m tests.spark_streams.formats.fuzz --values 100000``.

A value is random bytes, or a valid value of one format that is changed, cut, or joined with another value. In a few
values, some bytes are repeated until the value is long. Entries with such values are read as rows between two valid
entries, with columns of all types and both columns for malformed entries. In the modes PERMISSIVE and DROPMALFORMED no
value may raise an error or change the rows of other entries; in the mode FAILFAST, the error names the entry. The seed
and the entry's number reproduce an entry.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import fastavro
from pyspark.sql import types as t

from spark_streams.columns.conversion import SPARK_SCALARS
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.options import read_options
from spark_streams.errors import PystreamsError
from spark_streams.formats import resolution
from streamclient.codec.reference import ScalarPage
from streamclient.formats import protobuf
from streamclient.formats.schemas import Schema

LONGEST = 200_000  # size of the longest values, in bytes

AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b", "c"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "any", "type": ["null", "string", "double", "boolean"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "uuid", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
        {"name": "nulls", "type": {"type": "array", "items": "null"}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "float"}}},
        {
            "name": "tree",
            "type": {
                "type": "record",
                "name": "Node",
                "fields": [{"name": "n", "type": "int"}, {"name": "below", "type": {"type": "array", "items": "Node"}}],
            },
        },
    ],
}
PROTO = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message Row {
  int32 id = 1; repeated Row below = 2; map<string, Row> map = 3; google.protobuf.Timestamp at = 4;
  google.protobuf.Struct free = 5; google.protobuf.Any any = 6; repeated sint64 packed = 7; optional string note = 8;
  enum Kind { A = 0; B = 1; } Kind kind = 9; double ratio = 10; bytes raw = 11; uint64 large = 12;
}
"""


def _row(draw: random.Random) -> dict[str, Any]:
    def node(depth: int) -> dict[str, Any]:
        return {
            "n": draw.randrange(-99, 99),
            "below": [node(depth - 1) for _ in range(draw.randrange(3) if depth else 0)],
        }

    return {
        "id": draw.randrange(-(2**63), 2**63),
        "kind": draw.choice("abc"),
        "note": draw.choice([None, "", "é" * draw.randrange(9)]),
        "any": draw.choice([None, "x", 1.5, True]),
        "price": draw.randbytes(draw.randrange(1, 4)),
        "at": draw.randrange(2**60),
        "day": draw.randrange(-(10**5), 10**5),
        "uuid": draw.randbytes(16),
        "nulls": [None] * draw.randrange(4),
        "map": {draw.choice("xyz"): [0.5] * draw.randrange(3)},
        "tree": node(3),
    }


Make = Callable[[random.Random], bytes]


def records() -> tuple[Make, Make]:
    """Return a function that makes a valid value of Avro, and one of Protobuf."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(AVRO).replace("logicalType", "wasLogical")))

    def avro(draw: random.Random) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, _row(draw))
        return buffer.getvalue()

    schema = Schema("PROTOBUF", protobuf.serialized(PROTO))
    kind, _ = protobuf.Messages(schema, "of the test").message("Row")

    def message(draw: random.Random, depth: int = 2) -> Any:
        made = kind(
            id=draw.randrange(2**31),
            at={"seconds": draw.randrange(2**32)},
            packed=[draw.randrange(-(2**63), 2**63) for _ in range(draw.randrange(4))],
            kind=draw.randrange(3),
            raw=draw.randbytes(draw.randrange(9)),
            large=draw.randrange(2**64),
            below=[message(draw, depth - 1) for _ in range(draw.randrange(3) if depth else 0)],
        )
        made.free.update({"a": [1, None, {"b": "c"}]})
        if draw.random() < 0.3:
            made.any.Pack(kind(id=1, note="x"))
        return made

    return avro, lambda draw: message(draw).SerializeToString()  # type: ignore[no-any-return]


_SPECIAL = (
    b"\0",
    b"\1",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff" * 9 + b"\1",
    b"\xff\xff\xff\xff\x0f",
    b"\xdd\xff\xff\xff\xff",
    b"1e999",
    b"[{",
)


def value_of(draw: random.Random, make: Make) -> bytes:
    """Return a value that is probably malformed."""
    value = bytearray(make(draw))
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        at = draw.randrange(len(value) + 1)
        step = draw.randrange(6)
        if step == 0:
            value[at : at + 1] = draw.randbytes(1)
        elif step == 1:
            value[at : at + draw.randrange(3)] = draw.choice(_SPECIAL)
        elif step == 2:
            del value[at:]
        elif step == 3:
            value[at:] = make(draw)[at:]
        elif step == 4:
            value[at:at] = value[at : at + draw.randrange(20)] * draw.randrange(20)
        else:
            value = bytearray(draw.randbytes(draw.randrange(60)))
    if value and draw.random() < 0.002:
        at = draw.randrange(len(value))
        part = value[at : at + draw.randrange(1, 12)]
        value[at:at] = part * (LONGEST // len(part))
    return bytes(value)


NAMES = [field["name"] for field in AVRO["fields"]]  # type: ignore[attr-defined]
_TOKENS = (
    *("null", "true", "0", "-0", "-0.0", "1.5", "20000", "1e400", "1e-400", "9" * 30, "9" * 5000, "NaN", "-Infinity"),
    *('"x"', '""', '"12.50"', '"2013-07-04T12:00:00Z"', '"12:30:00"', '"PT1H"', '"AQ=="', '"NaN"', '"é\\u0000"'),
    *('"\\ud800"', '"\\ud83d\\ude00"', "tru", "'x'", "[" * 600 + "]" * 600, "{" * 9000, "[" * 300 + "1" + "]" * 300),
    *('{"scale":2,"value":"BNI="}', '{"scale":-999999,"value":"BNI="}', "1728045000123456789", '"+20000-01-01"'),
)


def _json(draw: random.Random, depth: int = 3) -> str:
    """Return a JSON text, which may be malformed in parts."""
    kind = draw.randrange(6 if depth else 3)
    if kind < 3:
        return draw.choice(_TOKENS)
    if kind == 3:
        return f"[{','.join(_json(draw, depth - 1) for _ in range(draw.randrange(3)))}]"
    names = [draw.choice((*NAMES, "a", "n", "\\ud800", "1", "2013-07-04")) for _ in range(draw.randrange(5))]
    return _object(names, draw, depth - 1)


def _object(names: list[str], draw: random.Random, depth: int) -> str:
    return "{" + ",".join(f'"{name}":{_json(draw, depth)}' for name in names) + "}"


def _row_text(draw: random.Random) -> str:
    return _object(draw.sample(NAMES, 4), draw, 3)


def _with_schema(draw: random.Random, payload: str) -> str:
    """Return a payload with a schema of Kafka Connect, which may be malformed."""
    if draw.random() < 0.3:
        return payload
    logical = ("io.debezium.time.Date", "io.debezium.time.NanoTime", "org.apache.kafka.connect.data.Decimal", "x")
    node: dict[str, Any] = {"name": draw.choice(logical), "parameters": draw.choice([{"scale": "2"}, {"scale": []}, 5])}
    fields: Any = [{**node, "field": name, "items": draw.choice([node, 1])} for name in NAMES]
    schema = draw.choice([{"fields": fields}, {"fields": [[1]]}, {"fields": 1}, 5])
    text = json.dumps(schema, separators=(",", ":")) if draw.random() < 0.9 else "[" * 2000 + "]" * 2000
    return f'{{"schema":{text},"payload":{payload}}}'


_SCALARS: tuple[t.DataType, ...] = (
    *(kind() for kind in SPARK_SCALARS if kind is not t.DecimalType),
    t.DecimalType(38, 18),
    t.DecimalType(10, 2),
)


def _kind(draw: random.Random, depth: int = 2) -> t.DataType:
    kind = draw.randrange(8) if depth else 0
    if kind < 5:
        return draw.choice(_SCALARS)
    inner = [_kind(draw, depth - 1) for _ in range(3)]
    may_be_null = [isinstance(each, t.NullType) or draw.random() < 0.7 for each in inner]
    if kind == 5:
        return t.ArrayType(inner[0], may_be_null[0])
    if kind == 6:
        key = draw.choice([each for each in _SCALARS if not isinstance(each, (t.VariantType, t.NullType))])
        return t.MapType(key, inner[0], may_be_null[0])
    names = draw.sample((*NAMES, "a", "n", "below", "scale", "value"), 3)
    return t.StructType([t.StructField(*field) for field in zip(names, inner, may_be_null, strict=True)])


def _columns(draw: random.Random, form: str) -> t.StructType:
    made = t.StructType([t.StructField(name, _kind(draw)) for name in draw.sample(NAMES, 4)])
    if form == "debezium":
        made.add("_key", _kind(draw))
    if draw.random() < 0.3:
        texts = draw.choice([t.StringType(), t.BinaryType()])
        made.add("fields", t.MapType(t.StringType(), texts, draw.random() < 0.5))
    return made.add("_rescued", t.StringType()).add("_corrupt_record", t.StringType())


def _entry(draw: random.Random, form: str, make: Make) -> dict[bytes, bytes]:
    """Return the fields of an entry of this format, which is probably malformed."""
    if draw.random() < 0.1:
        return {draw.choice([b"value", b"id", b"\xff"]): draw.choice([b"", b"\xff", b"default"])}
    if form == "fields":
        return {name.encode(): value_of(draw, lambda some: _json(some).encode()) for name in draw.sample(NAMES, 6)}
    value = value_of(draw, make) if draw.random() < 0.5 else make(draw)
    if form != "debezium":
        return {b"value": value}
    key = value_of(draw, lambda some: _with_schema(some, _json(some)).encode())
    return {b"key": key, b"value": value} if draw.random() < 0.5 else {key: value}


def run(entries: int, seed: int) -> int:
    """Read hostile entries of every format as rows of all types. Returns the number of malformed entries.

    Raises AssertionError with the seed, number and format of an entry that fails.
    """
    avro, proto = records()
    makes: dict[str, Make] = {
        "fields": lambda draw: b"",
        "json": lambda draw: _row_text(draw).encode(),
        "debezium": lambda draw: _with_schema(draw, _row_text(draw)).encode(),
        "avro": avro,
        "protobuf": proto,
    }
    schemas = {"avro": json.dumps(AVRO), "protobuf": PROTO}
    malformed = 0
    for number in range(entries):
        form = [*makes][number % len(makes)]
        draw = random.Random(f"{seed} {number}")
        mode = draw.choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
        extra = {"valueSchema": schemas[form], "valueMessage": "Row"} if form in schemas else {}
        if form == "avro":
            del extra["valueMessage"]
        schema, entry = _columns(draw, form), _entry(draw, form, makes[form])
        try:
            zone = draw.choice(["UTC", "America/New_York"])
            given = read_options({"stream": "s", "mode": mode, "valueFormat": form, "timeZone": zone, **extra})
            reader = resolution.reader(given) if form in schemas else None
            good = {b"value": makes[form](draw)} if form in schemas else {b"value": b"{}", b"unrelated": b"1"}
            malformed += _check_rows(ReadSchema.of(schema, given, reader=reader), entry, good)
        except Exception as cause:
            what = f"seed {seed}, number {number}, {form}, {mode}, {schema.simpleString()}: {entry!r:.300}"
            raise AssertionError(what) from cause
    return malformed


def _check_rows(schema: ReadSchema, entry: dict[bytes, bytes], good: dict[bytes, bytes]) -> bool:
    """Return whether the entry is malformed. `good`: the entries before and after it."""
    pages = [
        ScalarPage([(b"%d-1" % row, [*itertools.chain(*each.items())]) for row, each in enumerate(entries, 1)])
        for entries in ((good,), (good, entry, good))
    ]
    try:
        alone, together = (schema.batch(page, "s") for page in pages)
    except PystreamsError as problem:
        if schema.mode != "FAILFAST" or not re.search(r"entry [12]-1 of", str(problem), re.IGNORECASE):
            raise
        return True
    together.validate(full=True)
    assert together.schema == schema.arrow
    if alone.num_rows:
        assert together.slice(0, 1).equals(alone)
        assert together.slice(together.num_rows - 1).equals(alone)
    found = together.num_rows - 2 * alone.num_rows
    if schema.mode == "DROPMALFORMED":
        assert found in (0, 1)
        return found == 0
    assert found == 1
    if schema.mode == "FAILFAST":
        return False
    rescued, record = (together.column(name)[1].as_py() for name in ("_rescued", "_corrupt_record"))
    assert (rescued is None) == (record is None)
    if rescued is not None:
        json.loads(rescued, parse_int=str)
    return record is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    sys.stdout.write(f"{run(wanted.values, wanted.seed)}\n")


if __name__ == "__main__":
    main()
