"""Logical types of Kafka Connect and Debezium: what a JSON value means for a column, according to its schema.

Connect's JSON converter writes dates and times as numbers, and decimals as Base64. The value's schema names the type. A
value without a schema is converted if its meaning is clear: a number in a date column is a day, and the size of a
number in a timestamp column shows its unit, because Debezium never writes seconds.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from spark_streams.columns.types import calendar
from spark_streams.columns.types.scalar import of, refuse
from spark_streams.columns.types.table import scalar

#: A schema as the JSON converter writes it; empty if it is unknown.
Schema = Mapping[str, Any]

#: Nanoseconds per unit of the numbers of a logical type.
_UNITS = {
    "io.debezium.time.Date": 1000 * calendar.DAY,
    "io.debezium.time.Time": 10**6,
    "io.debezium.time.MicroTime": 10**3,
    "io.debezium.time.NanoTime": 1,
    "io.debezium.time.Timestamp": 10**6,
    "io.debezium.time.MicroTimestamp": 10**3,
    "io.debezium.time.NanoTimestamp": 1,
    "io.debezium.time.MicroDuration": 10**3,
    "io.debezium.time.NanoDuration": 1,
    "org.apache.kafka.connect.data.Date": 1000 * calendar.DAY,
    "org.apache.kafka.connect.data.Time": 10**6,
    "org.apache.kafka.connect.data.Timestamp": 10**6,
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_MIDNIGHT = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SCALE, _VALUE = "scale", "value"  # members of io.debezium.data.VariableScaleDecimal
_MOST_BYTES = 64  # maximum size of a decimal's digits; a column has at most 38 digits
#: Units of timestamps without a schema, as (limit, nanoseconds per unit): a number below the limit has this unit.
_BY_SIZE = ((10**14, 10**6), (10**17, 10**3), (2**63, 1))


def member(schema: Schema | None, name: str) -> Schema | None:
    """Return the schema of a struct's member."""
    if schema is None:
        return None
    fields = schema.get("fields")
    found = (each for each in fields if isinstance(each, dict)) if isinstance(fields, list) else ()
    return next((each for each in found if each.get("field") == name), {})


def items(schema: Schema | None) -> Schema | None:
    """Return the schema of a list's items or a map's values."""
    if schema is None:
        return None
    found = schema.get("items", schema.get("values"))
    return found if isinstance(found, dict) else {}


def converter(kind: Any, schema: Schema) -> Callable[[Any], Any]:
    """Return a function from JSON values of this schema to values of a scalar Arrow type.

    It raises ValueError, TypeError or ArithmeticError for values that do not fit.
    """
    plain = scalar(kind).from_json(kind)
    name, types = str(schema.get("name")), pa.types
    if types.is_decimal(kind):
        return lambda value: plain(_digits(value, schema) if name == _DECIMAL else _variable(value))
    if types.is_temporal(kind):
        unit = _UNITS.get(name, _UNITS["io.debezium.time.Date"] if types.is_date(kind) else None)
        return lambda value: _time(value, unit, kind) if type(value) is int else plain(_local(value, kind))
    return plain


def _variable(value: Any) -> Any:
    """Return the digits of a decimal with its own scale, and other values unchanged."""
    return _digits(value[_VALUE], {"parameters": value}) if isinstance(value, dict) and _VALUE in value else value


def _digits(value: Any, schema: Schema) -> Any:
    """Return a decimal as text. Numbers, which the JSON converter can write instead, are returned unchanged."""
    if not isinstance(value, str):
        return value
    data = base64.b64decode(value, validate=True)
    if len(data) > _MOST_BYTES:
        raise ValueError("a decimal with too many digits")
    scale = int(of(dict, schema.get("parameters")).get(_SCALE, 0))
    return f"{int.from_bytes(data, 'big', signed=True)}E{-scale}"


def _local(value: Any, kind: Any) -> Any:
    """Return a date or time of day without `Z`, which Debezium's ISO 8601 texts have, and other values unchanged."""
    return value.removesuffix("Z") if isinstance(value, str) and not pa.types.is_timestamp(kind) else value


def _time(value: int, unit: int | None, kind: Any) -> Any:
    """Return the date, time or interval of a number. `unit`: nanoseconds per unit; None if it is unknown."""
    types = pa.types
    if unit is None:
        sized = (unit for limit, unit in _BY_SIZE if abs(value) < limit) if types.is_timestamp(kind) else iter(())
        unit = next(sized, None) or refuse(value)
    micros = calendar.checked(value * unit // 1000)
    if types.is_date(kind):
        days = micros // calendar.DAY
        return days if -calendar.MOST_DAYS <= days < calendar.MOST_DAYS else refuse(value)
    if types.is_time(kind):
        if not 0 <= micros < calendar.DAY:
            refuse(value)
        return (_MIDNIGHT + datetime.timedelta(microseconds=micros)).time()
    return micros
