"""Preflight: `load()` and `start()` refuse wrong options themselves. Here with Spark Connect's classes, which need no
server for it; `tests/spark/test_batch.py` has the test with Spark.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.connect.plan import WriteStreamOperation
from pyspark.sql.connect.readwriter import DataFrameReader
from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

from spark_streams import preflight
from spark_streams.errors import OptionsError


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks, for this test, in front of methods that stand for Spark's."""
    for kind, methods in ((DataFrameReader, ["load"]), (DataStreamReader, ["load"]), (DataStreamWriter, ["start"])):
        for method in methods:
            monkeypatch.setattr(kind, method, _returns)
    monkeypatch.setattr(DataStreamWriter, "toTable", DataStreamWriter.toTable)
    preflight.install(connect=True)
    preflight.install(connect=True)


def _returns(*words: Any, **named: Any) -> tuple[Any, ...]:
    return words[1:], named


def reader(kind: type[Any] = DataFrameReader, **options: Any) -> Any:
    """A reader with these options, of the format."""
    return kind(None).format("pystreams").options(**options)


def test_right_options_reach_spark_as_they_were_given() -> None:
    """A read that may be right goes on with the arguments that it was called with."""
    assert reader(pageSize=5).load("s", schema="n int") == (("s",), {"schema": "n int"})
    assert reader(DataStreamReader, maxEntriesPerTrigger=5).load("s") == (("s",), {})
    assert DataFrameReader(None).load("s", format="pystreams", pageSize=5) == (
        ("s",),
        {"format": "pystreams", "pageSize": 5},
    )


@pytest.mark.parametrize(
    ("load", "refusal"),
    [
        (lambda: reader(strem="s").load(), r"\[UNKNOWN_OPTION\] .*'strem'"),
        (lambda: reader(strem="s").schema("n int").load("s"), r"\[UNKNOWN_OPTION\] .*'strem'"),
        (lambda: reader(DataStreamReader, strem="s").schema("n int").load("s"), r"\[UNKNOWN_OPTION\] .*'strem'"),
        (lambda: reader().load("s", pageSize="many"), r"\[INVALID_OPTION\] Option 'pageSize' is 'many'"),
        (lambda: reader(maxOffsetsPerTrigger=5).load("s"), r"\[INVALID_OPTION\] Option 'maxOffsetsPerTrigger' is '5'"),
        (lambda: reader(DataStreamReader, endingOffsets="5").load("s"), r"\[INVALID_OPTION\] Option 'endingOffsets'"),
        (lambda: reader().load(), r"\[MISSING_STREAM\]"),
        (lambda: DataFrameReader(None).load("s", format="PYSTREAMS", strem="x"), r"\[UNKNOWN_OPTION\]"),
    ],
)
def test_wrong_options_are_refused_by_load(load: Any, refusal: str) -> None:
    """Names, values and combinations are refused before Spark is asked, with and without a schema."""
    with pytest.raises(OptionsError, match=refusal):
        load()


def test_other_formats_are_left_alone() -> None:
    """The options of Spark's own formats are not looked at."""
    assert DataFrameReader(None).format("csv").options(strem="s").load("x") == (("x",), {})


def test_start_refuses_wrong_options() -> None:
    """A streaming write is refused by `start()` itself; Spark's own options are not judged."""

    class Frame:
        """Stands for a DataFrame."""

        _session = None

        class _plan:
            pass

    def writer(**options: Any) -> Any:
        made = DataStreamWriter.__new__(DataStreamWriter)
        made._write_stream = WriteStreamOperation(Frame._plan)  # type: ignore[arg-type]
        made._write_proto = made._write_stream.write_op
        return made.format("pystreams").options(**options)

    assert writer(checkpointLocation="/x", maxlen=5).start("s", queryName="q") == (("s",), {"queryName": "q"})
    with pytest.raises(OptionsError, match=r"\[UNKNOWN_OPTION\] .*'keycolum' for writing.*'keyColumn'"):
        writer(checkpointLocation="/x", keycolum="a").start("s")
    with pytest.raises(OptionsError, match=r"\[INVALID_OPTION\] Option 'chunkSize' is 'many'"):
        writer(chunkSize="many").start("s")
