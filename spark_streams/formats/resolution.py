"""Choice of the schema for a query's values from an option, a file, or a registry's subject.

The driver chooses the schema once, and the tasks use it.
"""

from __future__ import annotations

import base64
from typing import Any

from pyspark.sql import types as spark

from spark_streams.columns.conversion import attributes
from spark_streams.config.read import ReadOptions
from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.formats import avro, json_schema
from spark_streams.formats.avro import AvroReader, AvroWriter
from spark_streams.formats.json_schema import JsonReader, JsonWriter
from spark_streams.formats.protobuf import ProtobufReader, ProtobufWriter
from streamclient.config.address import Tls
from streamclient.config.option import parsed
from streamclient.formats import protobuf
from streamclient.formats.decoder import schema_in
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import Kind, Schema

Reader = AvroReader | ProtobufReader | JsonReader
Writer = AvroWriter | ProtobufWriter | JsonWriter

_KINDS: dict[str, Kind] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}


def reader(options: ReadOptions) -> Reader:
    """Return the reader of values that have a schema (`SchemaOptions.has_schema`).

    Raises SCHEMA_UNUSABLE and errors of a registry.
    """
    registry = registry_of(options)
    schema, source = _configured(options), _source(options)
    if schema is None and registry is not None:
        subject = _subject(options)
        latest = None if subject is None else registry.latest(subject)
        if latest is not None:
            schema, source = latest.schema, f"of the subject '{subject}' at {registry}"
            _check_kind(options, schema, source)
    if options.value_format == "avro":
        return AvroReader(schema, registry, source)
    if options.value_format == "protobuf":
        return ProtobufReader(schema, registry, source, options.value_message)
    return JsonReader(schema, source)


def schema(options: ReadOptions) -> spark.StructType:
    """Return the connector's own columns and the columns of the values' schema.

    Raises SUBJECT_MISSING if the registry has no schema for the stream.
    """
    found = reader(options)
    if found.schema is None:
        fail("SUBJECT_MISSING", registry=registry_of(options), subject=_subject(options) or "(several streams)")
    made = attributes()
    for field in found.fields():
        if field.name not in made.fieldNames():
            made.add(field)
    return made


def writer(options: WriteOptions, fields: Any) -> Writer:
    """Return the writer of rows with these Arrow fields.

    Raises SCHEMA_UNUSABLE, SCHEMA_INCOMPATIBLE, SUBJECT_MISSING and errors of a registry.
    """
    registry = registry_of(options)
    schema, source = _configured(options), _source(options)
    schema_id: int | None = None
    if registry is not None:
        subject = _subject(options)
        if subject is None:
            fail("SUBJECT_MISSING", registry=registry, subject="(several streams)")
        schema, schema_id = _registered(options, registry, subject, schema, fields)
        source = f"of the subject '{subject}' at {registry}"
    elif schema is None:
        schema, source = avro.schema_of(fields), "of the rows"
    if options.value_format == "json":
        assert schema_id is not None
        return JsonWriter(schema_id)
    made = (
        AvroWriter(schema, schema_id, source)
        if options.value_format == "avro"
        else ProtobufWriter(schema, schema_id, source, options.value_message)
    )
    made.check(fields)
    return made


def _registered(
    options: WriteOptions, registry: Registry, subject: str, schema: Schema | None, fields: Any
) -> tuple[Schema, int]:
    """Return the schema for writing, and its ID in the registry."""
    if schema is None and (not options.registers or options.value_format == "protobuf"):
        latest = registry.latest(subject)
        if latest is None:
            fail("SUBJECT_MISSING", registry=registry, subject=subject)
        _check_kind(options, latest.schema, f"of the subject '{subject}' at {registry}")
        return latest.schema, latest.schema_id
    if schema is None:
        of = avro if options.value_format == "avro" else json_schema
        schema = of.schema_of(fields)
    if options.registers:
        return schema, registry.register(subject, schema)
    schema_id = registry.id_of(subject, schema)
    if schema_id is None:
        fail("SUBJECT_MISSING", registry=registry, subject=subject)
    return schema, schema_id


def _check_kind(options: ReadOptions | WriteOptions, schema: Schema, source: str) -> None:
    if schema.kind != _KINDS[options.value_format]:
        reason = f"its type is {schema.kind}, and valueFormat is {options.value_format}"
        fail("SCHEMA_UNUSABLE", source=source, reason=reason)


def _configured(options: ReadOptions | WriteOptions) -> Schema | None:
    """Return the schema given by an option or in a file; None if neither is set."""
    if options.value_schema_file is not None:
        return schema_in(options.value_format, options.value_schema_file, options.value_message)
    if options.value_schema is None:
        return None
    kind = _KINDS[options.value_format]
    if kind != "PROTOBUF":
        return Schema(kind, options.value_schema)
    try:
        content = base64.b64decode(options.value_schema, validate=True)
    except ValueError:
        content = options.value_schema.encode()
    return protobuf.from_file(content, _source(options), options.value_message)


def _source(options: ReadOptions | WriteOptions) -> str:
    return f"in {options.value_schema_file}" if options.value_schema_file is not None else "of the option valueSchema"


def _subject(options: ReadOptions | WriteOptions) -> str | None:
    """Return the registry's subject for the query; None if it has several streams and no option names the subject."""
    if options.subject is not None:
        return options.subject
    streams = options.streams if isinstance(options, ReadOptions) else tuple(filter(None, [options.stream]))
    return f"{streams[0]}-value" if len(streams) == 1 else None


def registry_of(options: ReadOptions | WriteOptions) -> Registry | None:
    """Return the registry that the options name; None if they name none."""
    if options.registry_url is None:
        return None
    ca_file = options.registry_ca
    tls = getattr(getattr(options.address, "credentials", None), "tls", None)
    if ca_file is None and tls is not None:
        ca_file = tls.ca_file
    settings = {
        "user": options.registry_user,
        "password": options.registry_password,
        "token": options.registry_token,
        "tls": Tls(ca_file),
    }
    return parsed("schemaRegistry.url", lambda text: Registry.at(text, **settings), options.registry_url)
