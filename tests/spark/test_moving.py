"""A job that moves from the engine, interrupted in the middle of a batch, to a Redis Cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from tests import servers
from tests.pystreams.conftest import Cli
from tests.servers import topologies
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.redis, long_only]
_ROWS, _BATCH = 1000, 400
_BROKEN_AT = 590  # in the first half of the second batch


def start(spark: SparkSession, url: str, checkpoint: Path, *, breaks: bool) -> StreamingQuery:
    """Start the job: it copies `in` through the group g to `out`, in two partitions, exactly once."""

    def checked(number):  # type: ignore[no-untyped-def]  # annotations would change the UDF's kind
        if breaks and number == _BROKEN_AT:
            with redis.Redis.from_url(url, protocol=2) as client:  # the other task writes rows of the batch
                wait_for(lambda: client.xlen("out") > _BATCH, "rows of this batch", 60)
            raise ValueError("the job breaks")
        return number

    read = spark.readStream.format("pystreams").options(url=url, stream="in", group="g", startingOffsets="earliest")
    rows: DataFrame = read.options(minPartitions=2, maxEntriesPerTrigger=_BATCH).schema("n int").load()
    writer = rows.select(f.udf(checked, "int")("n").alias("n")).writeStream.format("pystreams")
    writer = writer.options(url=url, stream="out", chunkSize=20).option("checkpointLocation", str(checkpoint))
    return writer.start()


def numbers(client: redis.Redis | redis.RedisCluster, stream: str) -> list[int]:
    return [int(fields[b"n"]) for _, fields in client.xrange(stream)]


def test_a_job_moves_from_the_engine_to_a_cluster(
    spark: SparkSession, spark_engine: servers.Running, redis_process: servers.Running, tmp_path: Path
) -> None:
    """The job continues from its checkpoint after a half-written batch with pending entries, and
    writes each row once.
    """
    client = redis.Redis(port=spark_engine.port, protocol=2)
    client.flushall()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(_ROWS):
            pipeline.xadd("in", {"n": number})
        pipeline.execute()
    broken = start(spark, spark_engine.url, tmp_path / "checkpoint", breaks=True)
    with pytest.raises(PySparkException, match="the job breaks"):
        broken.awaitTermination(120)
    half = numbers(client, "out")
    assert sorted(half)[:_BATCH] == list(range(_BATCH))
    assert _BATCH < len(half) < 2 * _BATCH
    assert client.xpending("in", "g")["pending"] == _BATCH
    with topologies.cluster() as storage, storage.client() as cluster:
        cli = Cli(spark_engine.url, tmp_path)
        for stream in ("in", "out"):
            copied = cli.json("copy", stream, "--to-url", storage.url)
            assert (copied["pending"] == _BATCH) == (stream == "in")
            assert bool(copied["records"]) == (stream == "out")
        moved = start(spark, storage.url, tmp_path / "checkpoint", breaks=False)
        try:
            moved.processAllAvailable()
            assert sorted(numbers(cluster, "out")) == list(range(_ROWS))
            assert numbers(cluster, "out")[: len(half)] == half
            cluster.xadd("in", {"n": _ROWS})
            moved.processAllAvailable()
            assert numbers(cluster, "out")[-1] == _ROWS
        finally:
            moved.stop()
        (group,) = cluster.xinfo_groups("in")
        assert group["last-delivered-id"] == cluster.xinfo_stream("in")["last-generated-id"]
    client.flushall()
    client.close()
