"""Read options for columns: how an entry's fields become typed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streamclient.config.kinds import FLAG, TEXT, choice, whole
from streamclient.config.option import option

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
        "Meaning of numbers in timestamp columns. `iso`: numbers are not times, but `20130704` is a date. `seconds`, "
        "`milliseconds`, `microseconds`: time since 1970 in this unit. `epoch`: time since 1970 with eight or more "
        "digits: seconds below 10^11, milliseconds below 10^14, else microseconds. Numbers in JSON are always read as "
        "with `epoch`.",
    )

    @property
    def samples(self) -> int | None:
        """Number of entries per stream from which a schema is inferred; None if no schema is inferred."""
        return self.sampling_size if self.infers else None
