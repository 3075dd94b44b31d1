"""Preflight: `load()` and `start()` reject wrong options, and add the server that the environment names.

The tests use Spark Connect's classes, which need no server for this; `tests/spark/test_batch.py` has the test with
Spark.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer, CPickleSerializer
from pyspark.sql.connect.plan import WriteStreamOperation
from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

from spark_streams import preflight
from spark_streams.errors import OptionsError, WriteError


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the checks in front of stubs of Spark's methods."""
    monkeypatch.delenv("PYSTREAMS_URL", raising=False)
    for kind, method in (
        (DataFrameReader, "load"),
        (DataStreamReader, "load"),
        (DataStreamWriter, "start"),
        (DataFrameWriter, "save"),
    ):
        monkeypatch.setattr(kind, method, _returns)
    monkeypatch.setattr(DataStreamWriter, "toTable", DataStreamWriter.toTable)
    preflight.install(connect=True)
    preflight.install(connect=True)


def _returns(*words: Any, **named: Any) -> tuple[Any, ...]:
    return words[1:], named


def reader(kind: type[Any] = DataFrameReader, **options: Any) -> Any:
    """Return a reader of the format `pystreams` with these options."""
    return kind(None).format("pystreams").options(**options)


def test_valid_options_reach_spark_unchanged() -> None:
    """A read with valid options passes its arguments to Spark unchanged."""
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
    """`load()` rejects wrong names, values and combinations, with and without a schema."""
    with pytest.raises(OptionsError, match=refusal):
        load()


def test_other_formats_are_left_alone() -> None:
    """Options of other formats are not checked."""
    assert DataFrameReader(None).format("csv").options(strem="s").load("x") == (("x",), {})


def test_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server and login in the program's environment become options, unless the program sets these options."""
    monkeypatch.setenv("PYSTREAMS_URL", "redis://there")
    monkeypatch.setenv("PYSTREAMS_USER", "job")
    monkeypatch.setenv("PYSTREAMS_PASSWORD", "pw")
    login = {"user": "job", "password": "pw"}
    assert reader().load("s") == (("s",), {"url": "redis://there", **login})
    assert reader(DataStreamReader, URL="redis://here").load("s") == (("s",), login)
    assert reader(url="redis://a:b@here").load("s") == (("s",), {})
    assert reader(passwordFile="/pw").load("s") == (("s",), {"url": "redis://there", "user": "job"})
    written = DataFrameWriter(None, None).format("pystreams").options(user="me")  # type: ignore[arg-type]
    assert written.save("s") == (("s",), {"url": "redis://there", "password": "pw"})
    assert written.save("s", format="csv") == (("s",), {"format": "csv"})
    monkeypatch.setenv("PYSTREAMS_URL", "there")
    with pytest.raises(OptionsError, match="PYSTREAMS_URL"):
        reader().load("s")


def test_a_write_in_foreach_batch_needs_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Spark Connect, a write in a function of `foreachBatch` is refused unless it has a writeId or may add rows
    again. Other writes of the process are not affected.
    """
    monkeypatch.setattr(DataStreamWriter, "foreachBatch", _returns)
    preflight.install(connect=True)

    def save(**options: str) -> Any:
        return DataFrameWriter(None, None).format("pystreams").options(**options).save("s")  # type: ignore[arg-type]

    def each(_batch: Any, number: int) -> None:
        save(writeId=f"orders-{number}")
        save(writeMode="append")
        save()

    (marked,), _ = DataStreamWriter.foreachBatch(None, each)  # type: ignore[arg-type,call-overload,misc]
    with pytest.raises(WriteError, match=r"\[NO_BATCH_IDENTITY\] .*writeId to a name .* f'orders-{number}'"):
        CPickleSerializer().loads(CloudPickleSerializer().dumps(marked))(None, 3)
    assert save() == (("s",), {})


def test_start_refuses_wrong_options() -> None:
    """`start()` rejects wrong options of a streaming write, and accepts Spark's own options."""

    class Plan:
        """Stub of a plan."""

    def writer(**options: Any) -> Any:
        made = DataStreamWriter.__new__(DataStreamWriter)
        stream = WriteStreamOperation(Plan)  # type: ignore[arg-type]
        vars(made).update(_write_stream=stream, _write_proto=stream.write_op)
        return made.format("pystreams").options(**options)

    assert writer(checkpointLocation="/x", maxlen=5).start("s", queryName="q") == (("s",), {"queryName": "q"})
    with pytest.raises(OptionsError, match=r"\[UNKNOWN_OPTION\] .*'keycolum' for writing.*'keyColumn'"):
        writer(checkpointLocation="/x", keycolum="a").start("s")
    with pytest.raises(OptionsError, match=r"\[INVALID_OPTION\] Option 'chunkSize' is 'many'"):
        writer(chunkSize="many").start("s")
