"""Options shared by reads and writes, options of columns, and schemas of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_streams.config import time_zones
from spark_streams.errors import fail
from streamclient.config.address import Address, Embedded
from streamclient.config.option import (
    FLAG,
    TEXT,
    Kind,
    check_exclusive,
    choice,
    conflict,
    option,
    refuse,
    whole,
)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Stream and values, for reads and writes."""

    address: Address | Embedded = Embedded()
    stream: str | None = option(
        "stream",
        TEXT,
        None,
        "Stream to read from or write to. It may be the argument of `load`, `save` or `start`. The name is taken "
        "literally. Writes without this option need a column `_stream` with each row's stream.",
        aliases=("path",),
    )
    value_format: Literal["fields", "json", "avro", "protobuf", "debezium"] = option(
        "valueFormat",
        choice("fields", "json", "avro", "protobuf", "debezium"),
        "fields",
        "`fields`: a column is the entry's field of the same name. `json`: one field, `valueField`, holds all "
        "columns as a JSON object. `avro`, `protobuf`: `valueField` holds all columns as a record or message. Other "
        "options set the schema (install `pystreams-spark[formats]`). `debezium` (reading only): "
        "a column is a member of a change event that Debezium's Redis sink wrote in its format `compact` or "
        "`extended`, and `_key` is the event's key.",
    )
    value_field: str = option(
        "valueField",
        TEXT,
        "value",
        "Field that holds all columns. Only with `valueFormat` json, avro or protobuf.",
    )
    null_value: str | None = option(
        "nullValue",
        Kind(str),
        None,
        "Text that represents null. Without it, writes omit null columns. Reads convert empty text to null except in "
        "string and binary columns. Only with `valueFormat=fields`.",
    )
    zone: str | None = option(
        "timeZone",
        Kind(time_zones.parse),
        None,
        "Reading: time zone of timestamps that name none. Writing: time zone in which timestamps are written, with its "
        "offset; UTC is written as `Z`. A name such as `Europe/Berlin`, or an offset such as `+02:00`.",
        default_text="session time zone (read), `UTC` (write)",
    )

    def __post_init__(self) -> None:
        if self.null_value is not None and self.value_format != "fields":
            conflict(self, "null_value", "value_format")

    @property
    def row_field(self) -> str | None:
        """The field whose value contains all columns; None if each column is a separate field."""
        return self.value_field if self.value_format in ("json", "avro", "protobuf") else None


Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Reading: columns."""

    fields_type: Literal["string", "binary"] = option(
        "fieldsType",
        choice("string", "binary"),
        "string",
        "Type of the names and values in the map column `fields` when no schema is given.",
    )
    infers: bool = option(
        "inferSchema",
        FLAG,
        False,
        "Whether to infer a schema from the first entries when none is given: a column per field, with the narrowest "
        "type that fits all its values.",
    )
    sampling_size: int = option(
        "samplingSize", whole(1), 1000, "Number of entries that `inferSchema` reads from each stream."
    )
    requires_fields: bool = option(
        "requireFields",
        FLAG,
        False,
        "Whether a task fails if a column is null in all rows of the task, as a column with a misspelt name would be. "
        "If false, a warning is logged. Batch reads and the first batch after a query's start are checked.",
    )
    mode: Mode = option(
        "mode",
        choice("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
        "PERMISSIVE",
        "Treatment of a malformed entry, which has a value that does not fit its column's type. `PERMISSIVE`: the "
        "value is null. `DROPMALFORMED`: the entry is dropped. `FAILFAST`: the query fails.",
    )
    corrupt: str = option(
        "columnNameOfCorruptRecord",
        TEXT,
        "_corrupt_record",
        "String column for malformed entries, if the schema has it. It gets `valueField` as text (Avro and Protobuf: "
        "as Base64). With `valueFormat` fields or debezium, or if that field is missing, it gets the whole entry as "
        "JSON.",
    )

    timestamp_format: Literal["iso", "epoch", "seconds", "milliseconds", "microseconds"] = option(
        "timestampFormat",
        choice("iso", "epoch", "seconds", "milliseconds", "microseconds"),
        "iso",
        "Meaning of numbers in timestamp columns. `iso`: numbers are not times, but `2013` is a year and `20130704` a "
        "date. `seconds`, `milliseconds`, `microseconds`: time since 1970 in this unit. `epoch`: time since 1970 with "
        "eight or more digits: seconds below 10^11, milliseconds below 10^14, else microseconds. Numbers in JSON are "
        "always read as with `epoch`.",
    )

    @property
    def samples(self) -> int | None:
        """Number of entries per stream from which a schema is inferred; None if no schema is inferred."""
        return self.sampling_size if self.infers else None


_OF_REGISTRY = (
    "registry_user",
    "registry_password",
    "registry_token",
    "registry_ca",
    "subject",
    "registers",
)


@dataclass(frozen=True, kw_only=True)
class SchemaOptions:
    """Schemas of values: `valueFormat` avro, protobuf, or json with a registry."""

    value_schema: str | None = option(
        "valueSchema",
        TEXT,
        None,
        "Schema of the values. `avro`, `json`: as JSON. Reads of Avro with a registry resolve all values to this "
        "schema. `protobuf`: a FileDescriptorSet as Base64, or the text of a `.proto` file.",
    )
    value_schema_file: str | None = option(
        "valueSchemaFile",
        TEXT,
        None,
        "File with the schema of the values, on the driver's machine: `.avsc`, a FileDescriptorSet (`protoc "
        "--include_imports --descriptor_set_out`) or `.proto`. In place of `valueSchema`.",
    )
    value_message: str | None = option(
        "valueMessage",
        TEXT,
        None,
        "Message in the Protobuf schema: its full name, or the last part of the name.",
        default_text="the first message in the schema's file",
    )
    registry_url: str | None = option(
        "schemaRegistry.url",
        TEXT,
        None,
        "Registry with Confluent's interface, `http://` or `https://`. With a registry, values begin with a header: "
        "a zero byte and the ID of their schema. Without a registry, values have no header.",
    )
    registry_user: str | None = option("schemaRegistry.user", TEXT, None, "User at the registry, or API key.")
    registry_password: str | None = option(
        "schemaRegistry.password", TEXT, None, "Password at the registry, or API secret.", secret=True
    )
    registry_token: str | None = option(
        "schemaRegistry.token", TEXT, None, "Bearer token, in place of user and password.", secret=True
    )
    registry_ca: str | None = option(
        "schemaRegistry.caFile",
        TEXT,
        None,
        "File with the CA certificates to trust for the registry, on every machine that runs tasks.",
        default_text="the certificates in `tls.caFile`, else the system's",
    )
    subject: str | None = option(
        "schemaRegistry.subject",
        TEXT,
        None,
        "Subject in which writes register schemas. If no other option sets a schema, the subject's latest schema is "
        "the reader's schema, and determines the columns of reads that are given no schema.",
        default_text="`<stream>-value`",
    )
    registers: bool = option(
        "schemaRegistry.register",
        FLAG,
        True,
        "Writing: whether a new schema is registered. If false, rows are written with `valueSchema`, which the subject "
        "must have, or with the subject's latest schema if `valueSchema` is not set.",
    )

    def has_schema(self, value_format: str) -> bool:
        """Return whether values of this format have a schema."""
        return value_format in ("avro", "protobuf") or self.registry_url is not None

    def check_schemas(self, value_format: str, *, writes: bool) -> None:
        """Check that the options agree with each other and with the format.

        Raises CONFLICTING_OPTIONS, INVALID_OPTION or SCHEMA_MISSING.
        """
        check_exclusive(self, "value_schema", "value_schema_file")
        check_exclusive(self, "registry_token", "registry_user")
        for name in _OF_REGISTRY:
            if self.registry_url is None and getattr(self, name) != type(self).__dataclass_fields__[name].default:
                refuse(self, name, "it needs schemaRegistry.url as well")
        if value_format not in ("avro", "protobuf", "json"):
            for name in ("value_schema", "value_schema_file", "registry_url"):
                if getattr(self, name) is not None:
                    conflict(self, name, "value_format")
        if value_format == "json" and self.registry_url is None:
            for name in ("value_schema", "value_schema_file"):
                if getattr(self, name) is not None:
                    refuse(self, name, "values in JSON have a schema only with schemaRegistry.url")
        if value_format != "protobuf" and self.value_message is not None:
            conflict(self, "value_message", "value_format")
        is_known = (self.value_schema, self.value_schema_file, self.registry_url) != (None, None, None)
        # An Avro schema can be derived from rows. A Protobuf schema cannot, because it has field numbers.
        if not is_known and (value_format == "protobuf" or (value_format == "avro" and not writes)):
            fail("SCHEMA_MISSING", format=value_format)
