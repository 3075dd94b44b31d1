"""Batch reads and writes through Spark, on a real Redis and on the engine."""

# ruff: noqa: DTZ001, DTZ006 - Spark's timestamps in Python have no zone

from __future__ import annotations

import datetime
import decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, DataFrameWriter
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from pyspark.sql.types import Row
from pyspark.testing.utils import assertDataFrameEqual

from spark_streams import preflight
from spark_streams.errors import OptionsError
from tests.spark.bench import ON_BOTH, Bench

pytestmark = pytest.mark.spark


def test_a_read_without_a_schema(bench: Bench) -> None:
    """Without a schema, a row has the entry's ID, stream, time and fields. `_ms` and `_seq` order the rows, which can
    be written unchanged.
    """
    bench.client.xadd("s", {"a": "1", "b": ""}, id="1526919030474-9")
    bench.client.xadd("s", {b"\xc3\xa9": "ü"}, id="1526919030474-10")
    frame = bench.reader(stream="s").load()
    at, ms = datetime.datetime.fromtimestamp(1526919030.474), 1526919030474
    assert frame.orderBy(f.desc("_ms"), f.desc("_seq")).collect() == [
        Row(_id=f"{ms}-10", _stream="s", _timestamp=at, _ms=ms, _seq=10, fields={"é": "ü"}),
        Row(_id=f"{ms}-9", _stream="s", _timestamp=at, _ms=ms, _seq=9, fields={"a": "1", "b": ""}),
    ]
    bench.write(frame.coalesce(1).sortWithinPartitions("_ms", "_seq"), stream="copy")
    assert bench.client.xrange("copy") == bench.client.xrange("s")
    bench.write(frame, stream="other", keepIds="false")
    assert [fields for _, fields in bench.client.xrange("other")] == [fields for _, fields in bench.client.xrange("s")]


def test_entries_removed_between_two_actions_are_an_error(bench: Bench) -> None:
    """A DataFrame keeps its plan: an action fails (or, if so configured, warns) if entries were removed, also in a
    union.
    """
    bench.add("s", 100)
    frame = bench.reader(stream="s", minPartitions=3).schema("n int").load()
    lenient = bench.reader(stream="s", failOnDataLoss=False).schema("n int").load()
    assert lenient.union(frame).count() == 200
    bench.client.xtrim("s", maxlen=10, approximate=False)
    for action in (frame, frame.union(lenient)):
        with pytest.raises(PySparkException, match=r"ENTRIES_LOST.*'s'.*failOnDataLoss"):
            action.collect()
    assert lenient.count() == 10


@pytest.mark.parametrize(
    ("starting", "ending", "numbers"),
    [
        ("(2-1", "(4-1", [2]),
        ('{"s": "3-1"}', '{"s": "9"}', [2, 3]),
        ("9", "latest", []),
    ],
)
def test_a_read_with_both_ends_given(bench: Bench, starting: str, ending: str, numbers: list[int]) -> None:
    """A batch has exactly the entries between its starting and ending positions."""
    for n in range(4):
        bench.client.xadd("s", {"n": n}, id=f"{n + 1}-1")
    frame = bench.reader(stream="s", startingOffsets=starting, endingOffsets=ending).schema("n int").load()
    assert [row.n for row in frame.collect()] == numbers


def test_a_read_with_its_ends_as_times(bench: Bench) -> None:
    """A batch can start and end at times, for all streams together or for each stream."""
    for stream in ("a", "b"):
        for n in range(6):
            bench.client.xadd(stream, {"n": n}, id=f"{1000 * n}-{n + 1}")

    def found(**times: str) -> list[tuple[str, int]]:
        frame = bench.reader(streams="a,b", **times).schema("_stream string, n int").load()
        return sorted((row["_stream"], row.n) for row in frame.collect())

    whole = found(startingTimestamp="1000", endingTimestamp="1970-01-01T00:00:03Z")
    assert whole == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    each = found(startingTimestamp='{"a": 4001, "b": 5000}', endingTimestamp='{"a": "9000", "b": 5000}')
    assert each == [("a", 5)]
    assert found(startingTimestamp="1970-01-01 01:00:05", timeZone="+01:00") == [("a", 5), ("b", 5)]


def test_many_streams_in_small_pages(bench: Bench) -> None:
    """Many streams are read in small pages; with the option for missing streams, one that does not exist counts as
    empty.
    """
    bench.add("a", 250)
    bench.add("b", 7)
    frame = bench.reader(streams="a,b,c", pageSize=10, failOnMissingStream=False).schema("_stream string, n int").load()
    counts = {
        row["_stream"]: (row["count(1)"], row["sum(n)"])
        for row in frame.groupBy("_stream").agg(f.expr("count(1)"), f.sum("n")).collect()
    }
    assert counts == {"a": (250, sum(range(250))), "b": (7, 21)}


@ON_BOTH
def test_a_table_comes_back_as_it_was_written(bench: Bench) -> None:
    """Values of every type, Unicode, empty texts, line ends, a megabyte and nulls are read as they were written."""
    schema = (
        "k int, s string, b binary, flag boolean, tiny byte, short short, long long, f float, d double, "
        "dec decimal(20,6), day date, at timestamp, local timestamp_ntz"
    )
    day, at = datetime.date(2013, 1, 1), datetime.datetime(2013, 1, 1, 5, 0, 0, 123456)
    rows = [
        (1, "naïve ☃ 𝄞", b"\x00\xff\r\n", True, -128, -32768, -(2**63), 1.5, 0.1, decimal.Decimal("1.5"), day, at, at),
        (2, "", b"", False, 127, 32767, 2**63 - 1, float("inf"), -0.0, decimal.Decimal(0), day, at, at),
        (3, "a\r\nb\n$3\r\nxyz\r\n", b"*2\r\n", None, None, None, None, None, 1e300, None, None, None, None),
        (
            4,
            "m" * 1_000_000,
            b"\n" * 1_000_000,
            None,
            0,
            0,
            0,
            0.0,
            0.0,
            decimal.Decimal("-0.000001"),
            None,
            None,
            None,
        ),
    ]
    newer = "clock time(6), took interval day to second, tree string, nothing void"
    nested = "tags array<string>, place struct<lat:double,lon:decimal(9,4)>, marks map<string,timestamp>"
    frame = bench.spark.createDataFrame(rows, schema).selectExpr(
        "*",
        "TIME'12:30:00.5' AS clock",
        "make_dt_interval(k, -5, 0, 0.25) AS took",
        """concat('{"a":[', k, ',null]}') AS tree""",
        "NULL AS nothing",
        "if(k = 1, array('a', NULL, 'é'), NULL) AS tags",
        "if(k = 1, named_struct('lat', nullif(k, 2) + 0.5D, 'lon', cast(nullif(k, 2) AS decimal(9,4))), NULL) AS place",
        "if(k = 1, map('x', nullif(at, NULL)), NULL) AS marks",
    )
    bench.write(frame.withColumn("tree", f.expr("parse_json(tree)")), stream="s")
    schema = f"{schema}, {newer}, {nested}"
    again = bench.reader(stream="s").schema(schema.replace("tree string", "tree variant")).load()
    again = again.withColumn("tree", f.expr("to_json(tree)"))
    assertDataFrameEqual(again, frame, rtol=0, atol=0)
    assert bench.client.xlen("s") == 4


def test_trimming(bench: Bench) -> None:
    """`maxlen` trims exactly if `approximate` is false."""
    frame = bench.spark.range(2500).select(f.col("id").alias("n"))
    bench.write(frame.coalesce(1), stream="s", maxlen=10, approximate="false", chunkSize=100)
    assert bench.numbers("s") == list(range(2490, 2500))


def test_a_refused_row_fails_the_write_with_its_place(bench: Bench) -> None:
    """The error gives the row's number within its task, and the server's text."""
    rows = bench.spark.createDataFrame([(f"{n}-1", n) for n in (1, 2, 3, 3, 5)], "_id string, n int").coalesce(1)
    with pytest.raises(PySparkException, match=r"ROW_REFUSED.* Row 3 .*is not larger than the stream's last ID"):
        bench.write(rows, stream="s")
    empty = bench.spark.createDataFrame([(1,), (None,)], "n int").coalesce(1)
    with pytest.raises(PySparkException, match=r"NO_FIELDS.* Row 1 "):
        bench.write(empty, stream="t")


def test_invalid_reads_are_refused_with_a_headline(bench: Bench) -> None:
    """Invalid options and types, keys of another type and unreachable servers are errors whose first line names the
    problem.
    """
    bench.client.set("text", "x")
    for load, condition in (
        (lambda: bench.reader(stream="s").schema("a interval year to month").load().collect(), "UNSUPPORTED_TYPE"),
        (lambda: bench.reader(stream="text").load().collect(), "NOT_A_STREAM"),
        (lambda: bench.write(bench.spark.range(1)), "MISSING_STREAM"),
        (lambda: bench.reader().load("missing").collect(), "STREAM_MISSING"),
    ):
        with pytest.raises(PySparkException) as refused:
            load()
        message = str(refused.value)
        assert f": pystreams: [{condition}] " in message.partition("\n")[0]
        assert f"Error: [{condition}] " in message
    # It is the connector's own error if another test has registered the format in this process.
    with pytest.raises((PySparkException, OptionsError), match=r"\[UNKNOWN_OPTION\] There is no option 'streem'"):
        bench.reader(streem="s").load()
    nowhere = (
        bench.spark.read.format("pystreams")
        .options(url="redis://user:s3cret@127.0.0.1:1", stream="s", retryTimeoutMs=0)
        .load()
    )
    with pytest.raises(PySparkException, match="SERVER_UNREACHABLE") as caught:
        nowhere.collect()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("bench", ["engine"], indirect=True)
def test_load_and_start_refuse_wrong_options(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a program has registered the format, `load()` and `start()` raise the error for invalid options, with and
    without a schema. They and `save()` use the server that the program's environment names, and `load()` the
    session's time zone.
    """
    for kind, method in (
        (DataFrameReader, "load"),
        (DataStreamReader, "load"),
        (DataStreamWriter, "start"),
        (DataFrameWriter, "save"),
    ):
        monkeypatch.setattr(kind, method, getattr(kind, method))
    monkeypatch.setattr(DataStreamWriter, "toTable", DataStreamWriter.toTable)
    preflight.install(connect=False)
    bench.add("s", 1)
    frame = bench.reader(True, startingOffsets="earliest").schema("n int").load("s")
    for action, words in (
        (lambda: bench.reader(strem="s").schema("n int").load("s"), "'strem'"),
        (lambda: bench.reader(True, pageSize="many").schema("n int").load("s"), "'pageSize' is 'many'"),
        (lambda: bench.reader().load(), "No stream is named"),
        (lambda: bench.start(frame, keycolum="n", stream="t"), "'keycolum' for writing"),
    ):
        with pytest.raises(OptionsError, match=words):
            action()
    bench.run(frame, stream="t", maxlen=10)
    assert bench.numbers("t") == [0]
    assert bench.reader().schema("n int").load("t").count() == 1
    monkeypatch.setenv("PYSTREAMS_URL", bench.url)  # the session exists already, as in a notebook
    rows = bench.spark.read.format("pystreams").schema("n int").load("t")
    rows.write.format("pystreams").mode("append").save("u")
    assert bench.numbers("u") == [0]
    bench.client.xadd("v", {"at": "2013-07-04 12:30:00"})
    bench.spark.conf.set("spark.sql.session.timeZone", "JST")
    try:
        times = bench.spark.read.format("pystreams").schema("at timestamp").load("v").select(f.unix_timestamp("at"))
        assert [row[0] for row in times.rdd.collect()] == [1372941000 - 9 * 3600]  # not an SQL execution
    finally:
        bench.spark.conf.set("spark.sql.session.timeZone", "UTC")
