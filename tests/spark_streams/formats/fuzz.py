"""Fuzz test of the value formats: ``python -m tests.spark_streams.formats.fuzz --values 100000``.

A value is random bytes, or a valid value of one format that is changed, cut, or joined with another value. In a few
values, some bytes are repeated until the value is long. Each value is decoded for display, and read as columns between
two valid values of the same schema. It must be decoded to JSON or refused with UndecodableError, and the valid values
must not change. Time and memory are recorded and bounded. The seed and the value's number reproduce a value.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastavro
import msgpack
import pyarrow as pa

from spark_streams.formats.avro import AvroReader
from spark_streams.formats.protobuf import ProtobufReader
from streamclient.formats import protobuf
from streamclient.formats.decoder import Decoder
from streamclient.formats.schemas import Schema, UndecodableError

#: Maximum growth of the process over any number of values, in MB.
GROWTH_MB = 200
#: Maximum processor time of one value, in seconds.
SECONDS = 3.0
LONGEST = 300_000  # size of the longest values, in bytes

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
_PLAIN = {"type": "record", "name": "Plain", "fields": AVRO["fields"][:3]}
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


@dataclass(frozen=True)
class Form:
    """A format: its decoder, a function that makes a valid value, and its column reader with the columns' types."""

    decoder: Decoder
    make: Callable[[random.Random], bytes]
    reader: Any = None
    kinds: Any = None


def formats() -> dict[str, Form]:
    def avro(schema: dict[str, Any]) -> Form:
        text = Schema("AVRO", json.dumps(schema))
        plain = json.loads(json.dumps(schema).replace("logicalType", "wasLogical"))
        parsed = fastavro.parse_schema(plain)
        names = [field["name"] for field in schema["fields"]]

        def make(draw: random.Random) -> bytes:
            buffer = io.BytesIO()
            row = _row(draw)
            fastavro.schemaless_writer(buffer, parsed, {name: row[name] for name in names})
            return buffer.getvalue()

        reader = AvroReader(text, None, "of the test")
        kinds = {"id": pa.int64(), "kind": pa.string(), "note": pa.string()}
        if schema is AVRO:
            kinds |= {
                "any": pa.string(),
                "price": pa.decimal128(9, 2),
                "at": pa.timestamp("us", "UTC"),
                "uuid": pa.string(),
                "nulls": pa.list_(pa.null()),
                "map": pa.map_(pa.string(), pa.list_(pa.float32())),
            }
        return Form(Decoder("avro", schema=text), make, reader, kinds)

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

    def pack(draw: random.Random) -> Any:
        return [
            {"id": draw.randrange(99), b"raw": draw.randbytes(4)},
            1.5,
            None,
            [[]],
            msgpack.Timestamp(draw.randrange(99), 5),
        ]

    def text(draw: random.Random) -> Any:
        return {"id": draw.randrange(2**70), "a": [1.5, None, True, {"b": 'é\n"[{'}], "c": draw.random() * 1e300}

    kinds = {"id": pa.int32(), "at": pa.timestamp("us", "UTC"), "free": pa.string(), "any": pa.string()}
    kinds |= {"packed": pa.list_(pa.int64()), "kind": pa.string(), "large": pa.decimal128(20, 0)}
    return {
        "avro": avro(AVRO),
        "plain": avro(_PLAIN),
        "protobuf": Form(
            Decoder("protobuf", schema=schema),
            lambda draw: message(draw).SerializeToString(),  # type: ignore[no-any-return]
            ProtobufReader(schema, None, "of the test"),
            kinds,
        ),
        "msgpack": Form(Decoder("msgpack"), lambda draw: msgpack.packb(pack(draw))),  # type: ignore[arg-type, return-value]
        "json": Form(Decoder("json"), lambda draw: json.dumps(text(draw)).encode()),
        "auto": Form(Decoder("auto"), lambda draw: draw.randbytes(20)),
    }


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


def value_of(draw: random.Random, make: Callable[[random.Random], bytes]) -> bytes:
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


@dataclass
class Found:
    """Numbers of decoded and rejected values, the slowest value with its time in seconds, and memory growth in MB."""

    decoded: int = 0
    refused: int = 0
    slowest: tuple[float, str] = (0.0, "")
    growth: float = 0.0


def run(values: int, seed: int) -> Found:
    """Decode values of every format. Raises AssertionError with the seed, number and format of a value that fails."""
    found, forms = Found(), formats()
    for each in forms.values():  # warms up imports and schema caches
        _check(each, each.make(random.Random(0)), random.Random(0), found)
    names = list(forms)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(values):
        name = names[number % len(names)]
        draw = random.Random(f"{seed} {number}")
        value = value_of(draw, forms[name].make)
        started = time.process_time()
        try:
            _check(forms[name], value, draw, found)
        except Exception as cause:
            raise AssertionError(
                f"seed {seed}, number {number}, {name}: {value[:100]!r} of {len(value)} bytes"
            ) from cause
        found.slowest = max(found.slowest, (time.process_time() - started, f"{name} {number}, {len(value)} bytes"))
    found.growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert found.slowest[0] < SECONDS, found
    assert found.growth < GROWTH_MB, found
    return found


def _check(form: Form, value: bytes, draw: random.Random, found: Found) -> None:
    try:
        json.dumps(form.decoder.decode(value).value, allow_nan=False, ensure_ascii=False).encode()
        found.decoded += 1
    except UndecodableError:
        found.refused += 1
    if form.reader is None:
        return
    good = form.make(draw)
    alone = form.reader.members(pa.array([good], pa.binary()), form.kinds)
    together = form.reader.members(pa.array([good, value, good], pa.binary()), form.kinds)
    with contextlib.suppress(UndecodableError):
        form.reader.member_texts(value)
    for name, (column, wrong) in together.items():
        assert column.type == form.kinds[name]
        column.validate(full=True)
        expected = alone[name][0][0]
        assert column[0].equals(expected), name
        assert column[2].equals(expected), name
        assert wrong is None or not (wrong[0].as_py() or wrong[2].as_py()), name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    sys.stdout.write(f"{run(wanted.values, wanted.seed)}\n")


if __name__ == "__main__":
    main()
