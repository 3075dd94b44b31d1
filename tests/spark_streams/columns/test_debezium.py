"""Debezium's Redis formats: change events read as columns."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pytest
from pyspark.sql import types as t

from spark_streams.columns import json_values
from spark_streams.errors import DataError
from tests.spark_streams.columns.test_schema import Entry, page_of, read

ROW = t.StructType().add("id", t.IntegerType()).add("name", t.StringType())
SCHEMA = (
    t.StructType()
    .add("_id", t.StringType())
    .add("_key", t.StructType().add("id", t.IntegerType()))
    .add("op", t.StringType())
    .add("ts_ms", t.LongType())
    .add("before", ROW)
    .add("after", ROW)
)
OLD, NEW = {"id": 1004, "name": "Anne"}, {"id": 1004, "name": "Anne Marie", "email": "annek@noanswer.org"}
EVENT = {"before": OLD, "after": NEW, "source": {"db": "inventory"}, "op": "u", "ts_ms": 1589362330904}
#: The event with its schema, as the JSON converter writes it by default (`schemas.enable`).
WITH_SCHEMA = {"schema": {"type": "struct", "fields": [{"field": '"payload":{'}]}, "payload": EVENT}
KEY: dict[str, Any] = {"id": 1004}


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def wrapped(payload: Any) -> bytes:
    return text({"schema": {"type": "struct", "optional": False, "name": "a.Key"}, "payload": payload})


EXPECTED = {
    "_key": KEY,
    "op": "u",
    "ts_ms": 1589362330904,
    "before": OLD,
    "after": {"id": 1004, "name": "Anne Marie"},
}


def test_formats_may_be_mixed() -> None:
    """The members and the key of an event become columns, in both Debezium formats, with and without schemas, also in
    one page.
    """
    entries = [
        {text(KEY): text(EVENT)},
        {b"key": wrapped(KEY), b"value": text(WITH_SCHEMA)},
        {b"key": text(KEY), b"value": text(EVENT), b"header": b"x"},
        {wrapped(KEY): text(WITH_SCHEMA)},
        {b"key": wrapped(KEY), b"value": text(WITH_SCHEMA)[:-1] + b" }\n"},
        {b"key": wrapped(KEY), b"value": json.dumps(WITH_SCHEMA, indent=1).encode()},
        {wrapped({"id": 7}): wrapped({"op": "d", "before": OLD, "after": None})},
        {text({"id": 8}): b"default"},
        {b"default": text(EVENT)},
        {b"key": wrapped({"id": 9}), b"value": wrapped(None)},
    ]
    rows = read(SCHEMA, *entries, valueFormat="debezium", mode="FAILFAST")
    for row in rows:
        del row["_id"]
    nothing = dict.fromkeys(EXPECTED)
    assert rows[:6] == [EXPECTED] * 6
    assert rows[6:8] == [{**nothing, "_key": {"id": 7}, "op": "d", "before": OLD}, {**nothing, "_key": {"id": 8}}]
    assert rows[8:] == [{**EXPECTED, "_key": None}, {**nothing, "_key": {"id": 9}}]


def test_unwrapped_events_are_rows() -> None:
    """With Debezium's ExtractNewRecordState, the columns are those of the table, and the key can be read as text."""
    schema = t.StructType().add("_key", t.StringType()).add("id", t.IntegerType()).add("name", t.StringType())
    (row,) = read(schema, {text(KEY): text({**NEW, "__deleted": "false"})}, valueFormat="debezium", mode="FAILFAST")
    assert row == {"_key": '{"id":1004}', "id": 1004, "name": "Anne Marie"}


def test_entries_in_another_format_are_malformed() -> None:
    """An entry in neither format, and an event that is not JSON, are malformed."""
    strange: list[Entry] = [{b"a": b"1", b"b": b"2"}, {text(KEY): b"{"}, {b"key": text(KEY), b"value": b"[]"}]
    schema = t.StructType().add("op", t.StringType()).add("_corrupt_record", t.StringType())
    rows = read(schema, *strange, {text(KEY): text(EVENT)}, valueFormat="debezium")
    assert [row["op"] for row in rows] == [None, None, None, "u"]
    assert json.loads(rows[0]["_corrupt_record"]) == {"a": "1", "b": "2"}
    assert json.loads(rows[1]["_corrupt_record"]) == {'{"id":1004}': "{"}
    assert rows[3]["_corrupt_record"] is None
    with pytest.raises(DataError, match=r"MALFORMED_ENTRY.*2-1"):
        read(schema, {text(KEY): text(EVENT)}, {text(KEY): b"{"}, valueFormat="debezium", mode="FAILFAST")
    with pytest.raises(DataError, match=r"MALFORMED_ENTRY.*'not JSON'"):
        read(SCHEMA, {b"not JSON": text(EVENT)}, valueFormat="debezium", mode="FAILFAST")


def test_schemas_that_differ_from_event_to_event() -> None:
    """Each event's payload is found, even if the events' schemas differ or contain the text `payload`."""
    schemas = [{"name": "a"}, {"name": '"payload":1'}, {"fields": [{"payload": 1}, {"field": "ä"}]}, {"name": "a"}]
    entries = [{b"k": text({"schema": schema, "payload": {"n": n}})} for n, schema in enumerate(schemas)]
    entries += [{b"k": '{"schema":{"name":"ä"},"payload":{"n":4}}'.encode()}, {b"k": b'{"schema":5}'}]
    texts = json_values.payloads(page_of(*entries))[1].texts.to_pylist()
    assert [json.loads(payload) for payload in texts] == [
        {"n": 0},
        {"n": 1},
        {"n": 2},
        {"n": 3},
        {"n": 4},
        {"schema": 5},
    ]


MOMENT, DAY = datetime.datetime(2024, 10, 4, 12, 30, 0, 123456, tzinfo=datetime.UTC), datetime.date(2024, 10, 4)
MICROS = 1_728_045_000_123_456
DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
NUMERIC = {"name": f"{CONNECT}Decimal", "type": "bytes", "parameters": {"scale": "2"}}
AT, LOCAL, DECIMAL = t.TimestampType(), t.TimestampNTZType(), t.DecimalType(10, 2)


@pytest.mark.parametrize(
    ("kind", "logical", "value", "expected"),
    [
        (t.DateType(), f"{DEBEZIUM}Date", 20000, DAY),
        (t.DateType(), f"{CONNECT}Date", 20000, DAY),
        (t.DateType(), None, 20000, DAY),
        *[(t.DateType(), None, f"2024-10-04{zone}", DAY) for zone in ("", "Z")],
        (AT, f"{DEBEZIUM}Timestamp", MICROS // 1000, MOMENT.replace(microsecond=123000)),
        (AT, f"{DEBEZIUM}MicroTimestamp", MICROS, MOMENT),
        (AT, f"{DEBEZIUM}NanoTimestamp", MICROS * 1000 + 789, MOMENT),
        (AT, f"{CONNECT}Timestamp", MICROS // 1000, MOMENT.replace(microsecond=123000)),
        (AT, f"{DEBEZIUM}ZonedTimestamp", "2024-10-04T14:30:00.123456+02:00", MOMENT),
        (AT, f"{DEBEZIUM}MicroTimestamp", 5_000_000, datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=datetime.UTC)),
        *[(AT, None, MICROS * unit, MOMENT) for unit in (1, 1000)],
        (AT, None, MICROS // 1000, MOMENT.replace(microsecond=123000)),
        (AT, None, 5000, datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=datetime.UTC)),
        (LOCAL, f"{DEBEZIUM}MicroTimestamp", MICROS, MOMENT.replace(tzinfo=None)),
        (LOCAL, f"{DEBEZIUM}Timestamp", MICROS // 1000, MOMENT.replace(tzinfo=None, microsecond=123000)),
        (t.LongType(), f"{DEBEZIUM}MicroTimestamp", MICROS, MICROS),
        (t.DayTimeIntervalType(), f"{DEBEZIUM}MicroDuration", 5_000_000, datetime.timedelta(seconds=5)),
        (DECIMAL, NUMERIC, "BNI=", decimal.Decimal("12.34")),
        (DECIMAL, NUMERIC, "+y4=", decimal.Decimal("-12.34")),
        (DECIMAL, NUMERIC, 12.34, decimal.Decimal("12.34")),
        (DECIMAL, None, "12.34", decimal.Decimal("12.34")),
        (DECIMAL, None, {"scale": 2, "value": "BNI="}, decimal.Decimal("12.34")),
        # Values that do not fit.
        (t.DateType(), f"{DEBEZIUM}Date", 2**40, None),
        (AT, f"{DEBEZIUM}Timestamp", 2**60, None),
        (AT, None, 2**70, None),
        (DECIMAL, NUMERIC, "!", None),
        (DECIMAL, NUMERIC, "A" * 4000, None),
        (DECIMAL, {**NUMERIC, "parameters": {"scale": "x"}}, "BNI=", None),
        (DECIMAL, {**NUMERIC, "parameters": 5}, "BNI=", None),
    ],
)
def test_logical_types(kind: t.DataType, logical: Any, value: Any, expected: Any) -> None:
    """Dates, times and decimals are read as the event's schema says, also within arrays, and without a schema if their
    meaning is clear.
    """
    row = t.StructType().add("v", kind).add("l", t.ArrayType(kind))
    schema = t.StructType().add("_key", row).add("after", row).add("_corrupt_record", t.StringType())
    node = logical if isinstance(logical, dict) else {"type": "int64", "name": logical}
    fields = [{**node, "field": "v"}, {"type": "array", "items": node, "field": "l"}]
    after = {"type": "struct", "field": "after", "fields": fields}
    payload = {"v": value, "l": [value]}
    key, event = payload, {"after": payload}
    if logical is not None:
        key = {"schema": {"type": "struct", "fields": fields}, "payload": key}
        event = {"schema": {"type": "struct", "fields": [after]}, "payload": event}
    (found,) = read(schema, {b"key": text(key), b"value": text(event)}, valueFormat="debezium")
    assert found["after"] == {"v": expected, "l": None if expected is None else [expected]}
    assert found["_key"] == found["after"]
    assert (found["_corrupt_record"] is None) == (expected is not None)


@pytest.mark.skipif(not hasattr(t, "TimeType"), reason="this release of Spark has no type for times of day")
def test_times_of_day() -> None:
    """Times are read in the unit of their schema; without a schema the unit is unknown, so they do not fit."""
    schema = t.StructType().add("after", t.StructType().add("v", t.TimeType()))
    expected = datetime.time(12, 30, 0, 123000)
    for name, value in (("Time", 45_000_123), ("MicroTime", 45_000_123_000), ("NanoTime", 45_000_123_000_000)):
        fields = [{"type": "int64", "name": f"{DEBEZIUM}{name}", "field": "v"}]
        after = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
        event = text({"schema": after, "payload": {"after": {"v": value}}})
        assert read(schema, {b"k": event}, valueFormat="debezium") == [{"after": {"v": expected}}]
        assert read(schema, {b"k": text({"after": {"v": value}})}, valueFormat="debezium") == [{"after": {"v": None}}]
    event = text({"after": {"v": "12:30:00.123Z"}})
    assert read(schema, {b"k": event}, valueFormat="debezium") == [{"after": {"v": expected}}]
