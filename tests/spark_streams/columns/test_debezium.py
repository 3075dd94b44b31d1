"""Debezium's Redis formats: change events read as columns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import types as t

from spark_streams.columns import debezium
from spark_streams.config import options
from spark_streams.errors import DataError, OptionsError
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


@pytest.mark.parametrize(
    "entry",
    [
        {text(KEY): text(EVENT)},
        {b"key": text(KEY), b"value": text(EVENT)},
        {b"key": text(KEY), b"value": text(EVENT), b"header": b"x"},
        {wrapped(KEY): text(WITH_SCHEMA)},
        {b"key": wrapped(KEY), b"value": text(WITH_SCHEMA)},
        {b"key": wrapped(KEY), b"value": text(WITH_SCHEMA)[:-1] + b" }\n"},
    ],
    ids=["compact", "extended", "headers", "compact with schemas", "extended with schemas", "spaces"],
)
def test_a_change_event_is_columns(entry: Entry) -> None:
    """The members and the key of an event become columns, in both Debezium formats, with and without schemas."""
    (row,) = read(SCHEMA, entry, valueFormat="debezium", mode="FAILFAST")
    assert {name: value for name, value in row.items() if name != "_id"} == EXPECTED


def test_formats_may_be_mixed() -> None:
    """Entries of different formats in one page are read correctly, as after a change of the sink's settings."""
    entries = [
        {text(KEY): text(EVENT)},
        {b"key": wrapped(KEY), b"value": text(WITH_SCHEMA)},
        {b"key": text(KEY), b"value": text(EVENT)},
        {wrapped({"id": 7}): wrapped({"op": "d", "before": OLD, "after": None})},
        {text({"id": 8}): b"default"},
        {b"default": text(EVENT)},
        {b"key": wrapped({"id": 9}), b"value": wrapped(None)},
    ]
    rows = read(SCHEMA, *entries, valueFormat="debezium", mode="FAILFAST")
    for row in rows:
        del row["_id"]
    nothing = dict.fromkeys(EXPECTED)
    assert rows[:3] == [EXPECTED] * 3
    assert rows[3:5] == [{**nothing, "_key": {"id": 7}, "op": "d", "before": OLD}, {**nothing, "_key": {"id": 8}}]
    assert rows[5:] == [{**EXPECTED, "_key": None}, {**nothing, "_key": {"id": 9}}]


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
    texts = debezium.values(page_of(*entries)).to_pylist()
    assert [json.loads(payload) for payload in texts] == [
        {"n": 0},
        {"n": 1},
        {"n": 2},
        {"n": 3},
        {"n": 4},
        {"schema": 5},
    ]


def test_options_that_conflict_with_debezium() -> None:
    """valueFormat=debezium cannot be combined with inferSchema or nullValue, and cannot be used for writing."""
    for conflicting in ({"inferSchema": "true"}, {"nullValue": "x"}):
        with pytest.raises(OptionsError, match=r"CONFLICTING_OPTIONS.*valueFormat=debezium"):
            options.read_options({"stream": "s", "valueFormat": "debezium", **conflicting})
    with pytest.raises(OptionsError, match=r"INVALID_OPTION.*valueFormat.*for reading only"):
        options.write_options({"stream": "s", "valueFormat": "debezium"})
