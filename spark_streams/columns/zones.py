"""Time zones of Arrow types and arrays, and the zone of the session."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from spark_streams.columns.types.table import with_scalars
from spark_streams.config import time_zones
from streamclient.config.option import parsed

_SETTING = "spark.sql.session.timeZone"
_SETTINGS = "runner_conf"  # pyspark's name of the variable


def of_session(home: str | None) -> str | None:
    """Return the zone of the session that runs this task; None if it is unknown.

    Spark resolves the zone (session, `-Duser.timezone`, machine) and passes it with the settings of pyspark's worker.
    They are in a local variable of the functions that unpickle a task, so this is called while a reader is unpickled.
    Outside of SQL executions (`df.rdd`) they are Spark's defaults. Then `home`, if it is known, is the session's zone.
    """
    context = TaskContext.get()
    if home and (context is None or context.getLocalProperty("spark.sql.execution.id") is None):
        return parsed(_SETTING, time_zones.parse, home)
    frame: FrameType | None = sys._getframe(1)  # not its own, which would be in a reference cycle
    while frame is not None:
        # A look at `f_locals` keeps a frame's variables alive, so look only where the name exists.
        code = frame.f_code
        settings = frame.f_locals.get(_SETTINGS) if _SETTINGS in code.co_varnames + code.co_cellvars else None
        if settings is not None:  # a dict in Spark 4.0
            name = settings.timezone if hasattr(settings, "timezone") else settings.get(_SETTING)
            return parsed(_SETTING, time_zones.parse, name) if name else None
        frame = frame.f_back
    return None


def type_in(kind: Any, zone: str) -> Any:
    """Return the Arrow type with its zones replaced by this one."""
    return with_scalars(kind, lambda leaf: pa.timestamp(leaf.unit, zone) if getattr(leaf, "tz", None) else leaf)


def array_in(column: Any, zone: str) -> Any:
    """Return the column with this zone; the moments do not change."""
    kind = type_in(column.type, zone)
    return column if kind == column.type else column.cast(kind)
