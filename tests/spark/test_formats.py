"""Avro, Protobuf and JSON with a registry, through Spark: batches and queries, in every mode."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from pystreams.testing import schema_registry
from tests.spark.bench import Bench
from tests.spark.test_streaming import undo_last_batch

pytestmark = pytest.mark.spark

PROTO = """
syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Place { double lat = 1; }
message Row {
  int32 k = 1; repeated string tags = 2; Place place = 3; map<string, int64> marks = 4;
  google.protobuf.Timestamp at = 5;
}
"""
COLUMNS = ["k", "tags", "place", "marks", "at"]


def test_rows_of_every_format_come_back(bench: Bench) -> None:
    """A batch write registers a schema; a query reads by it and writes on, once only; a malformed entry is told."""
    frame = bench.spark.sql(
        "select 1 k, array('a', 'é') tags, named_struct('lat', 1.5D) place, map('x', 5L) marks, "
        "timestamp'2026-01-01 05:00:00.5' at union all select 2, array(), null, map(), null"
    )
    rows = sorted(frame.collect(), key=str)
    with schema_registry() as registry:
        for form in ("avro", "protobuf", "json"):
            said = {"valueFormat": form, "schemaRegistry.url": registry.url}
            of_stream = {"valueSchema": PROTO, "valueMessage": "Row"} if form == "protobuf" else {}
            bench.write(frame, stream=form, **said, **of_stream)
            message = {"valueMessage": "Row"} if form == "protobuf" else {}
            source = bench.reader(streaming=True, stream=form, startingOffsets="earliest", **said, **message).load()
            into = {"stream": f"{form}-copy", **said, **of_stream}
            for _ in range(2):
                bench.run(source.select(COLUMNS), **into)
                undo_last_batch(bench.checkpoint)
            copied = bench.reader(stream=f"{form}-copy", **said, **message).load().select(COLUMNS)
            if form == "json":  # which has no type for an int
                copied = copied.selectExpr("cast(k as int) k", *COLUMNS[1:])
            assert sorted(copied.collect(), key=str) == rows
            bench.checkpoint = bench.checkpoint.with_name(f"after-{form}")
            bench.client.xadd(form, {"value": b"\0\0\0\0\xffx"})
            broken = bench.reader(stream=form, **said, **message).schema("k int, _corrupt_record string").load()
            (corrupt,) = [row for row in broken.collect() if row.k is None]
            assert corrupt["_corrupt_record"] == ("x" if form == "json" else "AAAAAP94")
            dropped = bench.reader(stream=form, mode="DROPMALFORMED", **said, **message).load()
            assert dropped.count() == 2
            with pytest.raises(PySparkException, match="MALFORMED_ENTRY"):
                bench.reader(stream=form, mode="FAILFAST", **said, **message).load().collect()
