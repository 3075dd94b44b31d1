"""Conversion of texts: as in Spark's CSV source, except where the documentation says otherwise."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_streams.columns import conversion

pytestmark = pytest.mark.spark

WORDS = (
    "2013 2013-07 2013-7-4 2013-07-04 2013-07-04T12:30:00 2013-07-04T12:30:00.25Z 2013-07-04T12:30:00+02:00 "
    "1372941000 1372941000001 20130732 1 -7 +3 007 1.5 -1e3 .5 0x1F 1_000 NaN true FALSE yes x"
)
TYPES = {
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
#: Texts that Spark's CSV source reads as null, and the types that the connector reads from them.
BEYOND = {"20130704": ("date", "timestamp"), "20130704T123000Z": ("date", "timestamp")}


def test_texts_mean_what_they_mean_in_csv(spark: SparkSession, tmp_path: Path) -> None:
    """Each text converts to each type as in Spark's CSV source, except that compact ISO dates are also accepted."""
    path = tmp_path / "texts.csv"
    texts = [*WORDS.split(), *BEYOND]
    path.write_text("".join(f"{text}\n" for text in texts))
    column = pa.array([text.encode() for text in texts])
    for name, kind in TYPES.items():
        frame = spark.read.schema(f"value {name}").option("timeZone", "UTC").csv(str(path))
        rows = frame.selectExpr("unix_micros(value)" if name == "timestamp" else "value").collect()
        found = conversion.from_text(column, kind)
        converted = (found.cast(pa.int64()) if name == "timestamp" else found).to_pylist()
        for text, value, (expected,) in zip(texts, converted, rows, strict=True):
            if name in BEYOND.get(text, ()):
                assert (expected, value is None) == (None, False), (text, name)
            else:
                assert repr(value) == repr(expected), (text, name)
    assert conversion.from_text(pa.array([b"20130704"]), pa.date32()).to_pylist() == [datetime.date(2013, 7, 4)]
