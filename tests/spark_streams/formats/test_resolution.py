"""Source of a query's schema: an option, a file, or a registry's subject."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pystreams.testing import SchemaRegistry, schema_registry
from spark_streams.config.options import read_options, write_options
from spark_streams.errors import PystreamsError
from spark_streams.formats import resolution
from streamclient.formats import protobuf
from streamclient.formats.registry import Registry

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; } message Bill { string who = 1; }'
FIELDS = [pa.field("id", pa.int64())]
URL = {"url": "redis://127.0.0.1:1", "stream": "orders"}


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def columns(**options: str) -> list[str]:
    """Return the names of the inferred columns, without the connector's own."""
    found = resolution.schema(read_options({**URL, **options}))
    assert found is not None
    assert found.fieldNames()[:5] == ["_id", "_stream", "_timestamp", "_ms", "_seq"]
    return found.fieldNames()[5:]


def condition(made: Any) -> str:
    with pytest.raises(PystreamsError) as raised:
        made()
    return raised.value.condition


def writer(**options: str) -> Any:
    return resolution.writer(write_options({**URL, **options}), FIELDS)


def test_a_schema_of_an_option_or_a_file_gives_the_columns(tmp_path: Path) -> None:
    """An Avro or Protobuf schema in an option or a file gives the columns; a Protobuf schema may be text or
    descriptors.
    """
    (tmp_path / "order.avsc").write_text(ORDER)
    (tmp_path / "order.proto").write_text(PROTO)
    descriptors = (
        b"\x0a"
        + bytes([len(base64.b64decode(protobuf.serialized(PROTO)))])
        + base64.b64decode(protobuf.serialized(PROTO))
    )
    assert columns(valueFormat="avro", valueSchema=ORDER) == ["id"]
    assert columns(valueFormat="avro", valueSchemaFile=str(tmp_path / "order.avsc")) == ["id"]
    assert columns(valueFormat="protobuf", valueSchema=PROTO) == ["id"]
    assert columns(valueFormat="protobuf", valueSchemaFile=str(tmp_path / "order.proto"), valueMessage="Bill") == [
        "who"
    ]
    assert columns(valueFormat="protobuf", valueSchema=base64.b64encode(descriptors).decode(), valueMessage="Bill") == [
        "who"
    ]


def test_a_registry_has_the_schema_of_the_streams_subject(server: SchemaRegistry) -> None:
    """The subject is the stream's name with -value, unless an option names it; with several streams the option is
    required.
    """
    options = {"valueFormat": "avro", "schemaRegistry.url": server.url}
    assert condition(lambda: columns(**options)) == "SUBJECT_MISSING"
    server.add("orders-value", ORDER)
    server.add("bills", '{"type": "record", "name": "Bill", "fields": [{"name": "who", "type": "string"}]}')
    assert columns(**options) == ["id"]
    assert columns(**options, **{"schemaRegistry.subject": "bills"}) == ["who"]
    several = read_options({"url": URL["url"], "streams": "a,b", **options})
    assert condition(lambda: resolution.schema(several)) == "SUBJECT_MISSING"
    assert condition(lambda: columns(**{**options, "valueFormat": "protobuf"})) == "SCHEMA_UNUSABLE"
    assert columns(**{**options, "valueFormat": "avro", "valueSchema": ORDER.replace('"id"', '"number"')}) == ["number"]


def test_writing_registers_the_schema_of_the_rows(server: SchemaRegistry) -> None:
    """A write registers its schema once; with schemaRegistry.register=false the registered schema
    is required and used.
    """
    options = {"valueFormat": "avro", "schemaRegistry.url": server.url}
    assert condition(lambda: writer(**options, **{"schemaRegistry.register": "false"})) == "SUBJECT_MISSING"
    first = writer(**options)
    assert (first.schema_id, writer(**options).schema_id) == (1, 1)
    assert writer(**options, **{"schemaRegistry.register": "false"}) == first
    server.refusal = "no default"
    assert condition(lambda: writer(**options, valueSchema=ORDER)) == "SCHEMA_INCOMPATIBLE"
    server.refusal = ""
    unknown = {**options, "valueSchema": ORDER, "schemaRegistry.register": "false"}
    assert condition(lambda: writer(**unknown)) == "SUBJECT_MISSING"
    assert writer(**options, valueSchema=ORDER).schema_id == 2
    assert writer(**unknown).schema_id == 2


def test_the_schema_of_a_message_is_registered(server: SchemaRegistry) -> None:
    """A Protobuf write registers its schema; without a given schema it uses the subject's."""
    options = {"valueFormat": "protobuf", "schemaRegistry.url": server.url}
    assert condition(lambda: writer(**options)) == "SUBJECT_MISSING"
    first = writer(**options, valueSchema=PROTO)
    assert (first.schema_id, writer(**options).schema_id) == (1, 1)


def test_json_has_a_schema_only_with_a_registry(server: SchemaRegistry) -> None:
    """With a registry, a JSON write registers a schema made from the rows, and a read gets its columns from that
    schema.
    """
    assert not read_options({**URL, "valueFormat": "json"}).has_schema("json")
    options = {"valueFormat": "json", "schemaRegistry.url": server.url}
    assert read_options({**URL, **options}).has_schema("json")
    assert writer(**options).schema_id == 1
    assert columns(**options) == ["id"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"valueFormat": "avro"}, "SCHEMA_MISSING"),
        ({"valueFormat": "protobuf"}, "SCHEMA_MISSING"),
        ({"valueFormat": "avro", "valueSchema": ORDER, "valueSchemaFile": "x"}, "CONFLICTING_OPTIONS"),
        ({"valueFormat": "fields", "valueSchema": ORDER}, "CONFLICTING_OPTIONS"),
        ({"valueFormat": "debezium", "schemaRegistry.url": "http://x"}, "CONFLICTING_OPTIONS"),
        ({"valueFormat": "avro", "valueSchema": ORDER, "valueMessage": "A"}, "CONFLICTING_OPTIONS"),
        ({"valueFormat": "avro", "valueSchema": ORDER, "inferSchema": "true"}, "CONFLICTING_OPTIONS"),
        ({"valueFormat": "avro", "valueSchema": ORDER, "schemaRegistry.user": "ann"}, "INVALID_OPTION"),
        ({"valueFormat": "json", "valueSchema": "{}"}, "INVALID_OPTION"),
        ({"valueFormat": "avro", "schemaRegistry.url": "redis://x"}, "INVALID_OPTION"),
        ({"valueFormat": "avro", "valueSchemaFile": "/nowhere"}, "SCHEMA_UNUSABLE"),
        ({"valueFormat": "avro", "valueSchema": "[]"}, "SCHEMA_UNUSABLE"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], found: str) -> None:
    """Missing, conflicting and invalid schema options are errors."""
    assert condition(lambda: resolution.schema(read_options({**URL, **options}))) == found


def test_the_registry_has_the_options_of_its_login() -> None:
    """The registry uses its own credentials, timeout and CA, or the server's CA by default, and shows no password."""
    options = {
        **URL,
        "url": "rediss://127.0.0.1:1",
        "tls.caFile": "/ca",
        "valueFormat": "avro",
        "schemaRegistry.url": "https://registry/path/",
        "schemaRegistry.user": "ann",
        "schemaRegistry.password": "secret",
    }
    made = resolution.registry_of(read_options(options))
    assert isinstance(made, Registry)
    assert (made.url, made.user, made.password) == ("https://registry/path", "ann", "secret")
    assert made.tls.ca_file == "/ca"
    assert "secret" not in repr(made) + repr(read_options(options))
    separate = resolution.registry_of(read_options({**options, "schemaRegistry.caFile": "/own"}))
    assert separate is not None
    assert separate.tls.ca_file == "/own"
