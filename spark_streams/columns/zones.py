"""Time zones of Arrow types and arrays, and the zone of the session."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from spark_streams.columns.types.table import with_scalars
from spark_streams.config import time_zones
from streamclient.config.option import parsed

_SETTING = "spark.sql.session.timeZone"


def of_session() -> str | None:
    """Return the zone of this task's session; None outside of tasks, or if the session has no zone."""
    context = TaskContext.get()
    name = context.getLocalProperty(_SETTING) if context is not None else None
    return parsed(_SETTING, time_zones.parse, name) if name else None


def type_in(kind: Any, zone: str) -> Any:
    """Return the Arrow type with its zones replaced by this one."""
    return with_scalars(kind, lambda leaf: pa.timestamp(leaf.unit, zone) if getattr(leaf, "tz", None) else leaf)


def array_in(column: Any, zone: str) -> Any:
    """Return the column with this zone; the moments do not change."""
    kind = type_in(column.type, zone)
    return column if kind == column.type else column.cast(kind)
