"""Columns of a read: values that fit and values that do not, in every mode and format, and columns without values."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql import types as t

from spark_streams.columns import inference
from spark_streams.columns.read_schema import FieldCheck, ReadSchema
from spark_streams.config import options
from spark_streams.errors import DataError, PystreamsError, SchemaError
from streamclient.codec import reference
from streamclient.codec.decode import decode_page
from streamclient.codec.reply import Page
from tests.spark_streams.driver import schema_of

Entry = dict[bytes, bytes]


def page_of(*entries: Entry) -> Page:
    """Return a page of entries with the IDs 1-1, 2-1 and so on."""
    frames = b""
    for n, entry in enumerate(entries, 1):
        words = [word for pair in entry.items() for word in pair]
        bulks = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        entry_id = b"%d-1" % n
        frames += b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b" % (len(entry_id), entry_id, len(words), bulks)
    return decode_page(frames, 0, len(frames), len(entries))


def read(schema: str | t.StructType, *entries: Entry, **read_options: str) -> list[dict[str, Any]]:
    """Return the rows read from these entries."""
    known = options.read_options({"stream": "s", **read_options})
    batch = ReadSchema.of(schema_of(schema), known).batch(page_of(*entries), "s")
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


GOOD, BAD, EMPTY, NONE = {b"n": b"1"}, {b"n": b"one", b"x": b"\xff"}, {b"n": b""}, {b"m": b"1"}


def test_permissive() -> None:
    """In mode PERMISSIVE, a malformed value is null and its entry is the corrupt record; missing and empty values are
    only null.
    """
    rows = read("n int, _corrupt_record string", GOOD, BAD, EMPTY, NONE)
    assert [row["n"] for row in rows] == [1, None, None, None]
    records = [row["_corrupt_record"] for row in rows]
    assert [record is None for record in records] == [True, False, True, True]
    assert json.loads(records[1]) == {"n": "one", "x": "\ufffd"}
    named = read("n int, wrong string", BAD, columnNameOfCorruptRecord="wrong")
    assert json.loads(named[0]["wrong"])["n"] == "one"


def test_text_that_is_not_utf8() -> None:
    """Bytes that are not UTF-8 are malformed in a string column, and valid in a binary column."""
    assert read("x string", BAD)[0]["x"] is None
    with pytest.raises(DataError, match="MALFORMED_ENTRY"):
        read("x string", BAD, mode="FAILFAST")
    assert read("x binary", BAD, mode="FAILFAST")[0]["x"] == b"\xff"


@pytest.mark.parametrize(
    "field",
    [
        t.StructField("_id", t.IntegerType()),
        t.StructField("_corrupt_record", t.IntegerType()),
        t.StructField("_deliveries", t.StringType()),
        t.StructField("v", t.CalendarIntervalType()),
        t.StructField("a", t.ArrayType(t.YearMonthIntervalType())),
        t.StructField("c", t.YearMonthIntervalType()),
    ],
    ids=str,
)
def test_unsupported_columns_are_rejected(field: t.StructField) -> None:
    """A column of an unsupported type, or a reserved column of the wrong type, is an error."""
    with pytest.raises(SchemaError):
        read(t.StructType([field]))


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2", ""], t.IntegerType()),
        (["1", "3000000000"], t.LongType()),
        (["1", "2.5"], t.DoubleType()),
        (["true", "False"], t.BooleanType()),
        (["2013-07-04"], t.DateType()),
        (["2013-07-04", "2013-07-04T12:00:00Z"], t.TimestampType()),
        (["2013"], t.IntegerType()),
        (["1700000000000"], t.LongType()),
        (["x", "1"], t.StringType()),
        ([""], t.StringType()),
        (["12345678901234567890", "", "1"], t.DecimalType(20, 0)),
        (["-12345678901234567890"], t.DecimalType(20, 0)),
        (["12345678901234567890", "1.5"], t.DoubleType()),
        (["9" * 39], t.DoubleType()),
        (["1,000"], t.StringType()),
    ],
)
def test_types_of_texts(texts: list[str], kind: t.DataType) -> None:
    """A field's inferred type is the narrowest type that fits all its values."""
    assert inference.text_type([text.encode() for text in texts]) == kind
    assert inference.text_type([b"\xff"]) == t.BinaryType()


def test_types_of_json() -> None:
    """Inferred JSON types are merged: numbers to doubles, structs by their fields, other combinations to strings."""
    first = inference.json_type({"a": 1, "b": [1], "c": None, "d": {"x": 1}, "e": 1, "f": 2**64, "g": 2**64})
    second = inference.json_type({"a": 1.5, "b": ["x"], "c": True, "d": {"y": 2}, "e": "x", "f": 10**29, "g": 1.5})
    assert inference.merged(first, second).simpleString() == (
        "struct<a:double,b:array<string>,c:boolean,d:struct<x:bigint,y:bigint>,e:string,f:decimal(30,0),g:double>"
    )
    assert inference.merged(t.LongType(), inference.json_type(2**63)) == t.DecimalType(20, 0)
    assert inference.json_type(10**38) == t.DoubleType()


def test_names_and_nesting_that_no_column_can_have() -> None:
    """Names that are not text are skipped, deeply nested parts become strings, and rows that cannot be read are
    ignored.
    """
    rows = ['{"a":1,"\\ud800":1,"s":{"\\udfff":1}}', '{"b":' + "[" * 300 + "]" * 300 + "}", "[" * 5000, '{"c":']
    found = inference.schema([{b"v": row.encode()} for row in rows], "v", None)
    assert found.fieldNames()[-3:] == ["a", "s", "b"]
    assert found["b"].dataType.simpleString() == "array<" * 30 + "string" + ">" * 30


def test_a_page_of_large_values_is_several_batches() -> None:
    """Values that together exceed the maximum size of a record batch are divided, with their streams, deliveries and
    mask.
    """
    schema = ReadSchema.of(schema_of("_id string, _stream string, _deliveries int, v string"))
    page = page_of(*({b"v": b"x" * size} for size in (10, 300, 20, 20, 20, 500)))
    origin, deliveries = [("s", 2), ("t", 4)], np.arange(6, dtype=np.int32)
    mask = pa.array([True, True, False, True, True, True])
    found = [*schema.batches(page, origin, deliveries, mask, most=100)]
    assert [part.count for part, _ in found] == [1, 1, 3, 1]
    rows = [row for _, batch in found for row in batch.to_pylist()]
    assert rows == schema.batch(page, origin, deliveries, mask).to_pylist()
    assert [batch.num_rows for _, batch in schema.batches(page, origin, deliveries, mask)] == [5]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize(
    ("words", "fields", "record"),
    [
        ([b"b", b"2", b"c", b"\xff"], {"b": "2", "c": None}, '{"b": "2", "c": "\ufffd"}'),
        ([b"b", b"2", b"\xff", b"3", b"c", b"4"], {"b": "2", "c": "4"}, '{"b": "2", "\ufffd": "3", "c": "4"}'),
    ],
    ids=["a value", "a name"],
)
def test_bytes_that_are_not_text_are_malformed(
    mode: str, words: list[bytes], fields: dict[str, str | None], record: str
) -> None:
    """A value or a name that is not UTF-8 makes its own entry malformed in the map of all fields."""
    schema = t.StructType().add("_id", "string").add("fields", t.MapType(t.StringType(), t.StringType()))
    read_options = {"stream": "s", "mode": mode, "nullValue": "-"}
    columns = ReadSchema.of(schema.add("_corrupt_record", "string"), options.read_options(read_options))
    page = reference.ScalarPage([(b"1-1", [b"a", b"-", b"b", b""]), (b"2-1", words), (b"3-1", [])])
    if mode == "FAILFAST":
        with pytest.raises(DataError, match=r"MALFORMED_ENTRY.*'fields' of entry 2-1.*not UTF-8.*fieldsType=binary"):
            columns.batch(page, "s")
        return
    rows = [(row["_id"], dict(row["fields"]), row["_corrupt_record"]) for row in columns.batch(page, "s").to_pylist()]
    good = [("1-1", {"a": None, "b": ""}, None), ("3-1", {}, None)]
    assert rows == (good if mode == "DROPMALFORMED" else [good[0], ("2-1", fields, record), good[1]])


@pytest.mark.parametrize("columns", [3, 20, 3000])
def test_many_empty_columns_are_named_in_few_words(columns: int) -> None:
    """The message names at most twelve columns and is made quickly for any number of columns."""
    page = page_of({b"sensor_%d" % number: b"1" for number in range(columns)})
    schema = spark.StructType([spark.StructField(f"snsor_{number}", spark.StringType()) for number in range(columns)])
    given = {"url": "redis://localhost", "stream": "s", "requireFields": "true"}
    check = FieldCheck(ReadSchema.of(schema, options.read_options(given)))
    begin = time.process_time()
    check.see(page, pa.RecordBatch.from_pylist([{}], pa.schema([(name, pa.string()) for name in schema.names])))
    with pytest.raises(PystreamsError) as raised:
        check.finish(["s"])
    assert time.process_time() - begin < 20  # comparing all pairs of names would take minutes
    text = str(raised.value)
    assert text.count("'snsor_") == min(columns, 12)
    assert "nearest field: 'sensor_0'" in text
    assert len(text) < 1500
