"""Time zones as a part of Arrow types: a type, and an array, with another zone; and the zone of the session."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from spark_streams.config import time_zones
from streamclient.config.option import parsed

_SETTING = "spark.sql.session.timeZone"


def of_session() -> str | None:
    """The zone of the session that runs this task; None outside of tasks, and if the session has none."""
    context = TaskContext.get()
    name = context.getLocalProperty(_SETTING) if context is not None else None
    return parsed(_SETTING, time_zones.parse, name) if name else None


def type_in(kind: Any, zone: str) -> Any:
    """The Arrow type with that zone wherever it has one."""
    types = pa.types
    if types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, zone)
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(type_in(kind.value_type, zone)))
    if types.is_map(kind):
        key = kind.key_field.with_type(type_in(kind.key_type, zone))
        return pa.map_(key, kind.item_field.with_type(type_in(kind.item_type, zone)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(type_in(field.type, zone)) for field in kind])
    return kind


def array_in(column: Any, zone: str) -> Any:
    """The same moments, in that zone."""
    kind = type_in(column.type, zone)
    return column if kind == column.type else column.cast(kind)
