"""Encoding of record batches into chunks of commands."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from spark_streams.columns.write_schema import WriteSchema
from spark_streams.config import options
from spark_streams.write.rows.encoding import RowEncoder


@pytest.mark.parametrize("kind", [spark.BooleanType(), spark.IntegerType()], ids=["booleans", "integers"])
def test_a_chunk_of_many_columns_has_few_rows(kind: spark.DataType) -> None:
    """Chunks of many columns with long names stay below a maximum size, and no row is lost."""
    names = [f"a_rather_long_name_of_a_sensor_in_a_factory_{number}" for number in range(500)]
    rows = 4000
    values = pa.array([False, True] * (rows // 2)) if kind == spark.BooleanType() else pa.array(range(rows), pa.int32())
    batch = pa.RecordBatch.from_arrays([values] * len(names), names)
    schema = WriteSchema.of(spark.StructType([spark.StructField(name, kind) for name in names]))
    parsed = options.write_options({"url": "redis://localhost", "stream": "s"})
    written = 0
    for (chunk,) in RowEncoder(parsed, schema).chunks([batch]):
        assert chunk.rows.tolist() == list(range(written, written + len(chunk)))
        assert len(chunk.commands) < 48 << 20
        written += len(chunk)
    assert written == rows
