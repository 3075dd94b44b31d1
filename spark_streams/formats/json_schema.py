"""Rows as JSON with a registry's header, and conversion between JSON Schema and column types.

Values are not validated against the schema when they are read. A member that does not fit its column is malformed,
just as it is without a schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import json_values, json_writer
from spark_streams.columns.json_values import Converted
from spark_streams.errors import error
from spark_streams.formats.base import spark_fields
from streamclient.formats.schemas import HEADER, Schema, header
from streamwire.lazy import compute as pc

_DEEPEST = 30  # maximum nesting; parts of the schema that are nested deeper become strings
_PLAIN = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}
_FORMATS = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}


@dataclass(frozen=True)
class JsonReader:
    """Reads JSON objects, with or without the header."""

    schema: Schema | None
    source: str

    def fields(self) -> list[spark.StructField]:
        """Return the columns of the schema. Raises SCHEMA_UNUSABLE."""
        assert self.schema is not None
        try:
            whole = json.loads(self.schema.text)
            kind = _type(whole, whole, 0)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as cause:
            raise error("SCHEMA_UNUSABLE", source=self.source, reason=f"{type(cause).__name__}: {cause}") from cause
        if not pa.types.is_struct(kind):
            raise error(
                "SCHEMA_UNUSABLE", source=self.source, reason="it is not the schema of an object with properties"
            )
        return spark_fields({field.name: field.type for field in kind})

    def members(self, texts: Any, kinds: Mapping[str, Any]) -> dict[str, Converted]:
        """Return the columns with these names and types; see `json_values.members`."""
        return json_values.members(without_header(texts), kinds)

    def text(self, value: bytes) -> str:
        """Return a value as text, without its header."""
        return _without_header(value).decode("utf-8", "replace")

    def member_texts(self, value: bytes) -> dict[str, str]:
        """Return each member of a value as JSON text; see `json_values.member_texts`."""
        return json_values.member_texts(_without_header(value))


def _without_header(value: bytes) -> bytes:
    return value[HEADER if value[:1] == b"\0" else 0 :]


def without_header(texts: Any) -> Any:
    """Return the texts without their headers. A header starts with a zero byte, and no JSON does."""
    headed = pc.fill_null(pc.starts_with(texts, b"\0"), False)
    if not pc.any(headed, min_count=0).as_py():
        return texts
    return pc.if_else(headed, pc.binary_replace_slice(texts, 0, HEADER, b""), texts)


def _type(schema: Any, whole: Any, depth: int) -> Any:
    """Return the Arrow type of a schema; string if the schema allows any type or several types.

    A type with null counts as one type, and number with string as number.
    """
    if depth > _DEEPEST or not isinstance(schema, dict):
        return pa.string()
    if "$ref" in schema:
        found = whole
        for part in str(schema["$ref"]).removeprefix("#").strip("/").split("/"):
            found = found[part] if part else found
        return _type(found, whole, depth + 1)
    kinds = [each for each in _alternatives(schema) if each.get("type") != "null"]
    if [each.get("type") for each in kinds] == ["number", "string"]:  # NaN and infinities are strings
        return pa.float64()
    if len(kinds) != 1:
        return pa.string()
    (only,) = kinds
    if only is not schema:
        return _type(only, whole, depth + 1)
    kind = schema.get("type") or ("object" if "properties" in schema else "")
    if kind == "object" and schema.get("properties"):
        return pa.struct([(name, _type(each, whole, depth + 1)) for name, each in schema["properties"].items()])
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return pa.map_(pa.string(), _type(schema["additionalProperties"], whole, depth + 1))
    if kind == "array":
        return pa.list_(_type(schema.get("items"), whole, depth + 1))
    if kind == "string" and schema.get("contentEncoding") == "base64":
        return pa.binary()
    return _FORMATS.get(str(schema.get("format")), pa.string()) if kind == "string" else _PLAIN.get(kind, pa.string())


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    for name in ("oneOf", "anyOf"):
        if name in schema:
            return list(schema[name])
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": each} for each in schema["type"]]
    return [schema]


@dataclass(frozen=True)
class JsonWriter:
    """Writes rows as JSON objects with the header."""

    schema_id: int

    def values(self, names: list[str], columns: list[Any], count: int) -> Any:
        """Return a binary array with one value per row."""
        texts = json_writer.rows(names, columns, count)
        return pc.binary_join_element_wise(pa.scalar(header(self.schema_id), pa.binary()), texts, b"")


def schema_of(fields: Any) -> Schema:
    """Return a schema for rows with these Arrow fields. No member is required, since nulls are omitted."""
    return Schema("JSON", json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **_written(fields)}))


def _written(fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {field.name: _of(field.type) for field in fields}}


def _of(kind: Any) -> dict[str, Any]:
    types = pa.types
    if types.is_struct(kind):
        return _written(kind)
    if types.is_list(kind):
        return {"type": "array", "items": {"oneOf": [{"type": "null"}, _of(kind.value_type)]}}
    if types.is_map(kind):
        return {"type": "object", "additionalProperties": {"oneOf": [{"type": "null"}, _of(kind.item_type)]}}
    if types.is_boolean(kind):
        return {"type": "boolean"}
    if types.is_integer(kind):
        return {"type": "integer"}
    if types.is_floating(kind):
        return {"type": ["number", "string"]}  # NaN and infinities are strings
    if types.is_decimal(kind):
        return {"type": "number"}
    if types.is_binary(kind):
        return {"type": "string", "contentEncoding": "base64"}
    written = {"type": "string"}
    if types.is_date(kind):
        written["format"] = "date"
    elif types.is_timestamp(kind) and kind.tz is not None:
        written["format"] = "date-time"
    return written
