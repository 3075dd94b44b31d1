"""A client of Spark Connect: a separate program, because pyspark supports one kind of session per process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests import ROOT

PATIENCE = 300.0

CLIENT = """
    import json, sys
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    import spark_streams
    from spark_streams.embedded import launcher
    from spark_streams.errors import OptionsError
    from spark_streams.monitor import StreamMonitor

    remote, url, checkpoints = sys.argv[1:]
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"} if remote.startswith("local") else {}
    builder = SparkSession.builder.remote(remote)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark_streams.register(spark)
    monitor = StreamMonitor.install(spark, url=url)

    spark.range(100).toDF("n").write.format("pystreams").mode("append").options(url=url, stream="in").save()

    def query(name, **options):
        frame = spark.readStream.format("pystreams").options(url=url, stream="in", group=name)
        frame = frame.option("startingOffsets", "earliest").schema("n long").load()
        return frame.writeStream.queryName(name).option("checkpointLocation", checkpoints + "/" + name)

    copy = query("copy").format("pystreams").options(url=url, stream="out").trigger(availableNow=True).start()
    assert copy.awaitTermination(250), copy.status

    def each(batch, number):  # runs where the Connect server is, with names that it imports itself
        rows = batch.selectExpr("n * 2 AS n").write.format("pystreams").mode("append").options(url=url, stream="each")
        rows.option("writeId", f"each-{number}").save()

    batches = query("batches").foreachBatch(each).trigger(availableNow=True).start()
    assert batches.awaitTermination(250), batches.status

    def rows(stream):
        read = spark.read.format("pystreams").options(url=url, stream=stream).schema("n long").load()
        return sorted(row.n for row in read.collect())

    try:
        spark.read.format("pystreams").options(url=url, stream="nonesuch").load().count()
        missing = ""
    except PySparkException as error:
        missing = str(error).splitlines()[0]
    try:  # the embedded engine, in memory and in a directory
        row = spark.range(1).toDF("n").write.format("pystreams").mode("append").option("stream", "own")
        row.option("embedded.dir", checkpoints + "/kept").save()
        row = spark.range(1).toDF("n").write.format("pystreams").mode("append").option("stream", "own")
        row.save()
        refused = ""
    except PySparkException as error:
        refused = str(error)
    try:
        embedded = launcher.url()[:7]
    except OptionsError as error:
        embedded = error.condition
    print(json.dumps({"copy": rows("out"), "each": rows("each"), "missing": missing,
                      "embedded": embedded, "refused": refused}), flush=True)
"""


def run_client(remote: str, url: str, directory: Path) -> dict[str, Any]:
    """Run the client until it ends by itself; return its output."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSTREAMS_", "SPARK_CONN"))
    }
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CLIENT), remote, url, str(directory)],
        cwd=directory,
        env=environment | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def assert_all_works(found: dict[str, Any]) -> None:
    assert found["copy"] == list(range(100))
    assert found["each"] == [2 * n for n in range(100)]
    assert "[STREAM_MISSING]" in found["missing"]
