"""Messages about columns that are null in every row."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from spark_streams.columns.read_schema import FieldCheck, ReadSchema
from spark_streams.config import options
from spark_streams.errors import PystreamsError
from streamclient.codec.decode import decode_page


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


@pytest.mark.parametrize("columns", [3, 20, 3000])
def test_many_empty_columns_are_named_in_few_words(columns: int) -> None:
    """The message names at most twelve columns and is made quickly for any number of columns."""
    pairs = b"".join(bulk(b"sensor_%d" % number) + bulk(b"1") for number in range(columns))
    frame = b"*2\r\n" + bulk(b"1-1") + b"*%d\r\n" % (2 * columns) + pairs
    page = decode_page(frame, 0, len(frame), 1)
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
