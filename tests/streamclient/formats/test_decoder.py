"""Values as JSON: recognised formats, decoding with a schema, and rejected values."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import msgpack
import pytest
from google.protobuf import message
from hypothesis import given
from hypothesis import strategies as st

from pystreams.testing import SchemaRegistry, schema_registry
from streamclient.errors import PystreamsError
from streamclient.formats import protobuf
from streamclient.formats.decoder import Decoder, schema_in
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import Schema, UndecodableError, header, split, split_indexes

ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
ROW = {
    "id": 2**40,
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "price": decimal.Decimal("12.50"),
    "note": None,
}
ROW_AS_JSON = {"id": 2**40, "at": "2026-01-02T03:04:05+00:00", "price": "12.50", "note": None}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Customer { string name = 1; message Address { string city = 1; } }
message Order { int32 id = 1; Customer customer = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4; }
"""


def avro(schema: str, row: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(schema)), row)
    return buffer.getvalue()


def order() -> message.Message:
    kind, _ = protobuf.Messages(Schema("PROTOBUF", PROTO), "of the test").message("Order")
    made: message.Message = kind(id=7, customer={"name": "ann"}, at={"seconds": 5}, tags=["x"])
    return made


ORDER_AS_JSON = {"id": 7, "customer": {"name": "ann"}, "at": "1970-01-01T00:00:05Z", "tags": ["x"]}


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def test_json_and_message_pack_are_recognised() -> None:
    """Objects and arrays of JSON and MessagePack are recognised without a format name or schema."""
    row = {"a": [1, None, True, 1.5], "b": {"c": "é"}}
    found = Decoder().decode(json.dumps(row).encode())
    assert (found.format, found.value) == ("json", row)
    found = Decoder().decode(msgpack.packb({**row, "raw": b"\xff", 3: "three"}))
    assert (found.format, found.value) == ("msgpack", {**row, "raw": {"base64": "/w=="}, "3": "three"})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"12.5",
        b"text",
        b"\xff\xfe",
        b"{1:2}",
        b"[1,2",
        b"\x81",
        b"\x81\xa1a\x01rest",
        b"\0\0\0\0\1abc",
        b"[" * 10**5,
    ],
)
def test_other_values_are_refused(value: bytes) -> None:
    """Scalars, truncated values and values with trailing bytes are not recognised."""
    with pytest.raises(UndecodableError):
        Decoder().decode(value)


DECODERS = [
    *(Decoder(form) for form in ("auto", "json", "msgpack")),
    Decoder("avro", schema=Schema("AVRO", ORDER)),
    Decoder("protobuf", schema=Schema("PROTOBUF", protobuf.serialized(PROTO))),
]


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(value: bytes) -> None:
    """Arbitrary bytes are decoded to JSON or rejected with the documented error, in every format."""
    for decoder in DECODERS:
        with contextlib.suppress(UndecodableError):
            json.dumps(decoder.decode(value).value, allow_nan=False, ensure_ascii=False).encode()


def test_a_file_has_the_schema(tmp_path: Path) -> None:
    """Values without a header are decoded with an .avsc file, a FileDescriptorSet, or the text of a .proto file."""
    (tmp_path / "order.avsc").write_text(ORDER)
    found = Decoder.of_file("avro", str(tmp_path / "order.avsc")).decode(avro(ORDER, ROW))
    assert (found.value, found.name, found.schema_id) == (ROW_AS_JSON, "shop.Order", None)
    (tmp_path / "order.proto").write_text(PROTO)
    command = ("-m", "grpc_tools.protoc", f"-I{tmp_path}", "--include_imports", f"--descriptor_set_out={tmp_path}/set")
    subprocess.run([sys.executable, *command, "order.proto"], check=True, timeout=60)
    for name in ("set", "order.proto"):
        found = Decoder.of_file("protobuf", str(tmp_path / name), "shop.Order").decode(order().SerializeToString())
        assert (found.value, found.name) == (ORDER_AS_JSON, "shop.Order")


def test_a_header_names_the_schema(server: SchemaRegistry) -> None:
    """With a registry, a value's header names its schema, and each schema is requested once."""
    first = server.add("orders-value", ORDER)
    second = server.add("shipped-value", PROTO, "PROTOBUF")
    third = server.add("json-value", '{"type": "object"}', "JSON")
    decoder = Decoder(registry=Registry.at(server.url))
    server.requests.clear()
    for _ in range(3):
        found = decoder.decode(header(first) + avro(ORDER, ROW))
        assert (found.format, found.schema_id, found.value) == ("avro", first, ROW_AS_JSON)
        found = decoder.decode(header(second, (1,)) + order().SerializeToString())
        assert (found.format, found.name, found.value) == ("protobuf", "shop.Order", ORDER_AS_JSON)
        found = decoder.decode(header(second, (0, 0)) + b"\x0a\x04Bonn")
        assert (found.name, found.value) == ("shop.Customer.Address", {"city": "Bonn"})
        assert decoder.decode(header(third) + b'{"a": 1}').value == {"a": 1}
        with pytest.raises(UndecodableError, match="no schema with the ID 99"):
            decoder.decode(header(99) + b"x")
    assert sorted(server.requests) == [
        "GET /schemas/ids/1",
        "GET /schemas/ids/2",
        "GET /schemas/ids/2?format=serialized",
        "GET /schemas/ids/3",
        "GET /schemas/ids/99",
    ]


def test_references_are_followed(server: SchemaRegistry) -> None:
    """A schema may use types of other subjects. If a registry returns no descriptors, the texts of the schemas are
    compiled.
    """
    server.serialized = False
    money = '{"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}'
    bill = '{"type": "record", "name": "Bill", "fields": [{"name": "sum", "type": "Money"}]}'
    server.add("money", money)
    found = server.add("bills-value", bill, Money="money")
    assert Decoder(registry=Registry.at(server.url)).decode(header(found) + b"\x04").value == {"sum": {"cents": 2}}
    server.add("common/money.proto", 'syntax = "proto3"; message Money { int64 cents = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; import "common/money.proto"; message Bill { Money sum = 1; }'
    found = server.add("proto-value", text, "PROTOBUF", **{"common/money.proto": "common/money.proto"})
    decoder = Decoder("protobuf", Registry.at(server.url))
    assert decoder.decode(header(found, (0,)) + b"\x0a\x02\x08\x02").value == {"sum": {"cents": "2"}}


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**31), min_size=1, max_size=9), st.binary(max_size=9))
def test_headers_are_read_back(schema_id: int, path: list[int], payload: bytes) -> None:
    """`split` and `split_indexes` are the inverse of `header`."""
    found, rest = split(header(schema_id, tuple(path)) + payload)
    assert (found, split_indexes(rest)) == (schema_id, (tuple(path), payload))


def test_a_message_at_the_first_place_is_a_single_zero() -> None:
    """The index path of a schema's first message is encoded as one byte."""
    assert header(258) == b"\0\0\0\1\2"
    assert header(258, (0,)) == b"\0\0\0\1\2\0"


def conditions(*made: Any) -> list[str]:
    found = []
    for each in made:
        with pytest.raises(PystreamsError) as raised:
            each()
        found.append(raised.value.condition)
    return found


def test_an_unusable_schema_is_an_error_with_a_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing or malformed schema, or one without the message, raises an error with a condition."""
    (tmp_path / "bad.avsc").write_text('{"type": "recrod"}')
    (tmp_path / "bad.proto").write_text("message Order { int32 id = ; }")
    (tmp_path / "text").write_text("no descriptors")
    good = Schema("PROTOBUF", PROTO)
    assert conditions(
        lambda: Decoder("avro"),
        lambda: Decoder.of_file("avro", str(tmp_path / "none")),
        lambda: Decoder.of_file("avro", str(tmp_path / "bad.avsc")),
        lambda: Decoder.of_file("protobuf", str(tmp_path / "bad.proto")),
        lambda: Decoder.of_file("protobuf", str(tmp_path / "text")),
        lambda: Decoder("protobuf", schema=good, message="Invoice"),
    ) == ["SCHEMA_MISSING", *["SCHEMA_UNUSABLE"] * 4, "MESSAGE_MISSING"]
    monkeypatch.setattr(protobuf, "find_spec", lambda _: None)
    assert conditions(lambda: Decoder("protobuf", schema=good)) == ["PROTO_TEXT"]
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert conditions(lambda: Decoder("avro", schema=Schema("AVRO", ORDER))) == ["FORMAT_PACKAGE_MISSING"]


def test_descriptor_sets_keep_their_imports(tmp_path: Path) -> None:
    """A file of a descriptor set imports other files of the set by their names."""
    (tmp_path / "a.proto").write_text('syntax = "proto3"; message Money { int64 cents = 1; }')
    (tmp_path / "b.proto").write_text('syntax = "proto3"; import "a.proto"; message Bill { Money sum = 1; }')
    command = ("-m", "grpc_tools.protoc", f"-I{tmp_path}", f"--descriptor_set_out={tmp_path}/set")
    subprocess.run([sys.executable, *command, "--include_imports", "b.proto"], check=True, timeout=60)
    schema = schema_in("protobuf", str(tmp_path / "set"), "Bill")
    assert [each.name for each in schema.references] == ["a.proto"]
    assert Decoder("protobuf", schema=schema).decode(b"\x0a\x02\x08\x02").value == {"sum": {"cents": "2"}}
    subprocess.run([sys.executable, *command, "b.proto"], check=True, timeout=60)
    assert conditions(lambda: schema_in("protobuf", str(tmp_path / "set"), "Bill")) == ["SCHEMA_UNUSABLE"]
    assert base64.b64decode(schema.text)
