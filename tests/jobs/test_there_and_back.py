"""Files into a stream, the stream into an archive, and the archive back into a stream: each row is
kept once, in order.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from aggregate import aggregate
from archive import archive
from ingest import ingest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from replay import replay

from tests.jobs.conftest import Jobs, on
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@on("redis")
def test_binary_values_are_archived_with_binary_only(jobs: Jobs) -> None:
    """`archive` fails on values that are not UTF-8 and keeps the entries; with `--binary` they are archived and
    restored unchanged.
    """
    written = jobs.client.execute_command("XADD", "s", "1-1", "n", b"\xff\xfe", "m", "ü")
    jobs.client.xadd("s", {"n": "text"}, id="1-2")
    words = ["--stream", "s", "--trim-behind"]
    output = jobs.run(archive, *words, "--to", jobs.path("texts"), status=1)
    assert (
        f"error: [ARCHIVE_NOT_TEXT] The entry {written} of the stream 's' contains bytes that are not text." in output
    )
    assert jobs.client.xlen("s") == 2
    jobs.client.xgroup_destroy("s", "archive")
    directory = jobs.path("bytes")
    jobs.run(archive, *words, "--to", directory, "--binary", "--group", "bytes")
    assert jobs.client.xlen("s") == 0  # trimmed, although there was only one batch
    jobs.run(replay, "--from", directory, "--to", "back", "--checkpoint", jobs.path("replay"))
    with redis.Redis.from_url(jobs.url, protocol=2) as raw:
        expected = [(b"1-1", {b"n": b"\xff\xfe", b"m": "ü".encode()}), (b"1-2", {b"n": b"text"})]
        assert raw.xrange("back") == expected


@long_only
@on("redis")
def test_incomplete_files_stop_the_ingest_until_they_are_complete(jobs: Jobs) -> None:
    """`ingest` fails on empty and incomplete files without adding rows, and reads them when they are complete."""
    landing = jobs.path("landing")
    landing.mkdir()
    (landing / "1.csv").write_text("")
    words = ["--from", landing, "--format", "csv", "--stream", "s", "--checkpoint", jobs.path("checkpoint")]
    with pytest.raises(PySparkException):
        jobs.run(ingest, *words)
    (landing / "1.csv").write_text("k,n\na,1\nb")
    with pytest.raises(PySparkException, match="MALFORMED_CSV_RECORD"):
        jobs.run(ingest, *words)
    assert jobs.client.exists("s") == 0
    (landing / "1.csv").write_text("k,n\na,1\nb,2\n")
    jobs.run(ingest, *words)
    assert jobs.rows("s") == [{"k": "a", "n": "1"}, {"k": "b", "n": "2"}]


@long_only
@on("redis")
def test_a_job_in_a_thread_leaves_the_programs_session_running(jobs: Jobs, spark: SparkSession) -> None:
    """A job in a thread uses the running Spark session and does not stop it."""
    jobs.client.xadd("s", {"n": 1})
    words = ["--stream", "s", "--sql", "SELECT n FROM events", "--schema", "n int", "--to", "alerts"]
    with ThreadPoolExecutor(1) as pool:
        output = pool.submit(jobs.run, aggregate, *words, "--checkpoint", jobs.path("checkpoint")).result()
    assert "done: 1 row in 1 batch" in output
    assert (jobs.client.xlen("alerts"), spark.range(3).count()) == (1, 3)
