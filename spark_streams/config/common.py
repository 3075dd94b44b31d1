"""Options shared by reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_streams.config import time_zones
from streamclient.config.address import Address, Embedded
from streamclient.config.option import ANY_TEXT, TEXT, Kind, choice, conflict, option


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
        ANY_TEXT,
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
