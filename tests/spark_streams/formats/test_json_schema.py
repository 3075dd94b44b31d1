"""JSON with a schema registry's header, and JSON Schema as columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from spark_streams.errors import PystreamsError
from spark_streams.formats import json_schema
from spark_streams.formats.json_schema import JsonReader, JsonWriter
from streamclient.formats.schemas import Schema


def columns(schema: Any) -> dict[str, str]:
    fields = JsonReader(Schema("JSON", json.dumps(schema)), "of the test").fields()
    return {field.name: field.dataType.simpleString() for field in fields}


def test_a_schema_gives_the_types_of_the_columns() -> None:
    """A JSON Schema gives the columns' types; a member with more than one type is a string."""
    assert columns(
        {
            "$defs": {"Money": {"type": "object", "properties": {"cents": {"type": "integer"}}}},
            "properties": {
                "flag": {"type": "boolean"},
                "number": {"type": ["null", "number"]},
                "at": {"type": "string", "format": "date-time"},
                "day": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
                "money": {"$ref": "#/$defs/Money"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "map": {"type": "object", "additionalProperties": {"type": "number"}},
                "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
                "any": True,
                "endless": {"$ref": "#/properties/endless"},
            },
        }
    ) == {
        "flag": "boolean",
        "number": "double",
        "at": "timestamp",
        "day": "date",
        "money": "struct<cents:bigint>",
        "list": "array<bigint>",
        "map": "map<string,double>",
        "either": "string",
        "any": "string",
        "endless": "string",
    }


@pytest.mark.parametrize("text", ["{", '{"type": "string"}', '{"properties": {"a": {"$ref": "#/nope"}}}', "[]"])
def test_a_schema_without_columns_is_refused(text: str) -> None:
    """Malformed JSON, a type other than object, and an unresolved reference are errors."""
    with pytest.raises(PystreamsError, match="SCHEMA_UNUSABLE"):
        JsonReader(Schema("JSON", text), "of the test").fields()


def test_rows_are_read_back() -> None:
    """A schema made from columns gives their types again, and rows written with its ID are read back."""
    kinds = {
        "id": pa.int64(),
        "x": pa.float64(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "tags": pa.list_(pa.string()),
        "inner": pa.struct([("a", pa.bool_())]),
        "map": pa.map_(pa.string(), pa.int64()),
        "raw": pa.binary(),
    }
    schema = json_schema.schema_of([pa.field(name, kind) for name, kind in kinds.items()])
    assert list(columns(json.loads(schema.text)).values()) == [
        "bigint", "double", "timestamp", "date", "array<string>", "struct<a:boolean>", "map<string,bigint>", "binary",
    ]  # fmt: skip
    rows = [
        pa.array([1, None]),
        pa.array([float("inf"), 1.5]),
        pa.array([0, None], kinds["at"]),
        pa.array([5, None], kinds["day"]),
        pa.array([["a"], None]),
        pa.array([{"a": True}, None], kinds["inner"]),
        pa.array([[("k", 1)], None], kinds["map"]),
        pa.array([b"\xff", None]),
    ]
    values = JsonWriter(258).values(list(kinds), rows, 2)
    assert values[1].as_py() == b'\0\0\0\1\2{"x":1.5}'
    reader = JsonReader(schema, "of the test")
    assert [column for column, _ in reader.members(values, kinds).values()] == rows
    bare = pa.array([b'{"id":7}', None, b"\0\0\0\0\1nope"])
    column, wrong = reader.members(bare, {"id": pa.int64()})["id"]
    assert (column.to_pylist(), wrong.to_pylist()) == ([7, None, None], [False, False, True])
    assert reader.text(b"\0\0\0\0\1nope") == reader.text(b"nope") == "nope"
