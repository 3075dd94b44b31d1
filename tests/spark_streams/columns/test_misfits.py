"""Values that cannot be parsed: counted by column, and kept in `_rescued`."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from pystreams.testing import SchemaRegistry, schema_registry
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.errors import PystreamsError
from spark_streams.formats import resolution
from tests.spark_streams.columns.test_schema import Entry, page_of
from tests.spark_streams.driver import schema_of


def read(schema: str | t.StructType, *entries: Entry, mask: Any = None, **extra: str) -> tuple[list[Any], Counter[str]]:
    """Return the parsed values of `_rescued`, and the number of malformed values in each column."""
    known = options.read_options({"stream": "s", **extra})
    counts: Counter[str] = Counter()
    reader = resolution.reader(known) if known.has_schema(known.value_format) else None
    columns = ReadSchema.of(schema_of(schema), known, reader=reader)
    batch = columns.batch(page_of(*entries), "s", mask=mask, counts=counts)
    rescued = batch.column("_rescued").to_pylist() if "_rescued" in batch.schema.names else []
    return [None if text is None else json.loads(text) for text in rescued], counts


INT, TEXT, DEEP = t.IntegerType(), t.StringType(), "[" * 600 + "]" * 600
PAIR = t.StructType().add("a", INT).add("b", TEXT)
STRICT = t.StructType().add("a", INT).add("b", INT, nullable=False)


@pytest.mark.parametrize(
    ("kind", "text", "value", "fits"),
    [
        (PAIR, '{"a":"x","b":"y"}', {"a": None, "b": "y"}, False),
        (PAIR, '{"a":1,"b":{"c":[1.50]}}', {"a": 1, "b": '{"c":[1.50]}'}, True),
        *[(PAIR, text, None, False) for text in ("5", "[1]", '"x"')],
        (t.StructType().add("s", PAIR), '{"s":{"a":"x","b":"y"}}', {"s": {"a": None, "b": "y"}}, False),
        (t.ArrayType(INT), '[1,"x",3]', None, False),
        (t.ArrayType(PAIR), '[{"a":"x","b":"y"},{"a":2}]', [{"a": None, "b": "y"}, {"a": 2, "b": None}], False),
        (t.ArrayType(PAIR), '[{"a":1},5]', None, False),
        (t.MapType(TEXT, INT), '{"k":1,"l":"x"}', None, False),
        (t.MapType(TEXT, PAIR), '{"k":{"a":"x","b":"y"}}', [("k", {"a": None, "b": "y"})], False),
        *[(t.ArrayType(INT, False), text, None, False) for text in ("[1,null]", "[null]")],
        (t.ArrayType(INT, False), "[1]", [1], True),
        (STRICT, '{"a":1}', None, False),
        (STRICT, '{"a":1,"b":"x"}', None, False),
        (STRICT, '{"a":"x","b":1}', {"a": None, "b": 1}, False),
        (t.MapType(TEXT, INT, False), '{"k":null}', None, False),
        *[(t.DateType(), text, None, False) for text in ("20000", "2013", "1.5")],
        (t.DateType(), '"2013-07-04"', datetime.date(2013, 7, 4), True),
        *[(t.DecimalType(10, 2), text, decimal.Decimal("12.50"), True) for text in ('"12.50"', "12.5", '"1.25e1"')],
        (t.DecimalType(10, 2), '"1,000.5"', decimal.Decimal("1000.50"), True),
        *[(t.DecimalType(10, 2), text, None, False) for text in ('""', '" 1"', '"x"', "true", '"NaN"', "1234567890")],
        (TEXT, '"a\\ud800"', "a?", True),
        (TEXT, '["\\ud800",NaN]', '["\\ud800","NaN"]', True),
        (TEXT, "123456789012345678901234567890.10", "123456789012345678901234567890.10", True),
        (TEXT, DEEP, None, False),
    ],
)
def test_members_that_do_not_fit_are_null_as_in_spark(kind: t.DataType, text: str, value: Any, fits: bool) -> None:
    """As from Spark's from_json, only members that do not fit are null, and the entry is malformed. A null where the
    type allows none does not fit either.
    """
    known = options.read_options({"stream": "s", "valueFormat": "json"})
    schema = t.StructType().add("v", kind).add("n", INT).add("_rescued", TEXT).add("_corrupt_record", TEXT)
    entry = {b"value": f'{{"v":{text},"n":1}}'.encode()}
    (row,) = ReadSchema.of(schema, known).batch(page_of(entry), "s").to_pylist()
    is_read = text is not DEEP  # a value that is nested too deep is not read at all
    assert (row["v"], row["n"]) == (value, 1 if is_read else None)
    assert (row["_rescued"], row["_corrupt_record"]) == (None, None) if fits else row["_corrupt_record"]
    if not fits:
        rescued = json.loads(row["_rescued"])
        assert rescued == ({"v": json.loads(text)} if is_read else {"value": entry[b"value"].decode()})
    dropping = ReadSchema.of(schema, replace(known, mode="DROPMALFORMED"))
    assert dropping.batch(page_of(entry), "s").num_rows == fits
    if not fits:
        with pytest.raises(PystreamsError, match=r"MALFORMED_ENTRY.* entry 1-1 of 's'"):
            ReadSchema.of(schema, replace(known, mode="FAILFAST")).batch(page_of(entry), "s")


def test_a_null_in_a_strict_column_names_the_entry() -> None:
    """If the column itself allows no null, a value with a null inside is an error that names the entry in PERMISSIVE,
    and the entry is dropped in DROPMALFORMED.
    """
    schema = t.StructType().add("v", t.ArrayType(INT, False), nullable=False)
    entry = {b"v": b"[1,null]"}
    with pytest.raises(PystreamsError, match=r"NULL_IN_COLUMN.* 1-1 of 's'.*'v'"):
        ReadSchema.of(schema, options.read_options({"stream": "s"})).batch(page_of(entry), "s")
    dropping = ReadSchema.of(schema, options.read_options({"stream": "s", "mode": "DROPMALFORMED"}))
    assert dropping.batch(page_of(entry), "s").num_rows == 0


def test_texts_of_fields_are_kept() -> None:
    """Field values that do not fit their column are kept as text, by column."""
    schema = schema_of("n int, at timestamp, s string, _rescued string")
    schema.add("tags", t.ArrayType(t.IntegerType()))
    entries = [
        {b"n": b"1", b"at": b"2026-01-01", b"s": b"x", b"tags": b"[1]"},
        {b"n": b"3000000000", b"at": b"yesterday"},
        {b"s": b"\xff", b"tags": b"[1,"},
        {b"n": b""},
        {},
    ]
    rescued, counts = read(schema, *entries)
    assert rescued == [None, {"n": "3000000000", "at": "yesterday"}, {"s": "\\xff", "tags": "[1,"}, None, None]
    assert counts == {"n": 1, "at": 1, "s": 1, "tags": 1}
    _, counts = read("n int", *entries)
    assert counts == {"n": 1}


def test_values_of_avro_are_kept() -> None:
    """A number too large for its column is kept as a number; bytes that cannot be decoded are kept in Base64."""
    avro = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}]}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(avro), {"n": 3_000_000_000})
    entries = [{b"value": buffer.getvalue()}, {b"value": b"\xff"}]
    extra = {"valueFormat": "avro", "valueSchema": json.dumps(avro)}
    assert read("n int, _rescued string", *entries, **extra) == ([{"n": 3_000_000_000}, {"value": "/w=="}], {"n": 2})


def test_debezium_and_maps_are_kept() -> None:
    """A change event's key and members that do not fit are kept, and the map of fields if a value is not UTF-8."""
    event = {b"key": b'{"id":"x"}', b"value": b'{"n":"many"}'}
    schema = schema_of("n int, _rescued string").add("_key", t.StructType().add("id", t.IntegerType()))
    assert read(schema, event, valueFormat="debezium")[0] == [{"_key": '{"id":"x"}', "n": "many"}]
    texts = schema_of("_rescued string").add("fields", t.MapType(t.StringType(), t.StringType()))
    rescued, counts = read(texts, {b"a": b"\xff"})
    assert (rescued, counts) == ([{"fields": {"a": "\ufffd"}}], {"fields": 1})


def test_rows_of_other_tasks_do_not_count() -> None:
    """Entries outside the task's range are not counted; rows that DROPMALFORMED omits are counted."""
    entries = [{b"n": b"a"}, {b"n": b"b"}, {b"n": b"1"}]
    assert read("n int", *entries, mask=pa.array([True, False, True]))[1] == {"n": 1}
    assert read("n int", *entries, mode="DROPMALFORMED")[1] == {"n": 2}


def test_the_column_is_a_string() -> None:
    """A column `_rescued` that is not a string is an error."""
    with pytest.raises(PystreamsError, match=r"RESERVED_COLUMN.*_rescued"):
        read("n int, _rescued int")


AVRO = json.dumps({"type": "record", "name": "Row", "fields": [{"name": "n", "type": ["null", "long"]}]})
PROTO = 'syntax = "proto3"; message Row { optional int64 n = 1; }'


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as server:
        yield server


@pytest.mark.parametrize("form", ["avro", "protobuf", "json"])
def test_an_entry_without_the_value_is_malformed(form: str) -> None:
    """An entry without the value's field is malformed: its row is null, or omitted, or an error
    that names the field.
    """
    extra = {
        "valueFormat": form,
        **({} if form == "json" else {"valueSchema": {"avro": AVRO, "protobuf": PROTO}[form]}),
    }
    known = options.read_options({"stream": "s", **extra})
    columns = ReadSchema.of(schema_of("n long, _corrupt_record string"), known, reader=resolution.reader(known))
    assert columns.needed_fields() is None
    (row,) = columns.batch(page_of({b"other": b"x"}), "s").to_pylist()
    assert row == {"n": None, "_corrupt_record": '{"other": "x"}'}
    assert read("n long, _rescued string", {b"other": b"x"}, **extra) == ([{"value": None}], {"n": 1})
    known = replace(known, mode="DROPMALFORMED")
    columns = ReadSchema.of(schema_of("n long"), known, reader=resolution.reader(known))
    assert columns.batch(page_of({b"other": b"x"}), "s").num_rows == 0
    with pytest.raises(PystreamsError, match=r"The field 'value' of entry 1-1 of 's' has no value\."):
        read("n long", {b"other": b"x"}, mode="FAILFAST", **extra)


@pytest.mark.parametrize("form", ["avro", "protobuf"])
@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"\0\0\0\0\x63\0abc", r"'\\x00\\x00\\x00\\x00c\\x00abc', .*: http\S+ has no \w+ schema with the ID 99\."),
        (
            b"hello",
            "'hello', which cannot be decoded: the value does not begin with a zero byte and the ID of a schema",
        ),
        (b"", "'', which cannot be decoded: the value does not begin with a zero byte"),
    ],
)
def test_the_error_names_why_a_value_cannot_be_decoded(
    registry: SchemaRegistry, form: str, value: bytes, cause: str
) -> None:
    """The error for a value that cannot be decoded names the cause: an unknown schema ID or a missing header."""
    schema = {"avro": AVRO, "protobuf": PROTO}[form]
    extra = {"valueFormat": form, "valueSchema": schema, "schemaRegistry.url": registry.url, "mode": "FAILFAST"}
    with pytest.raises(PystreamsError, match=cause):
        read("n long", {b"value": value}, **extra)


def test_the_error_names_the_member_and_the_type_in_spark() -> None:
    """The error for a JSON value shows only the member that does not fit, or the whole value if it is not an object."""
    with pytest.raises(PystreamsError, match=r"the text '3000000000', which does not fit the type int of column 'n'"):
        read("n int", {b"value": b'{"n":3000000000,"m":1}'}, valueFormat="json", mode="FAILFAST")
    with pytest.raises(PystreamsError, match=r"the value 'nope', which cannot be decoded: it is not a JSON object"):
        read("n int", {b"value": b"nope"}, valueFormat="json", mode="FAILFAST")
