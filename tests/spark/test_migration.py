"""A job whose server is replaced: redis-server hands over to the engine and back, and the url changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.servers.sentinels import Member, members
from tests.spark.test_moving import _BATCH, _ROWS, numbers, start
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.redis, long_only]


def hand_over(old: Member, new: Member) -> None:
    """Wait until ``new`` has all data of ``old``, then make it the master."""
    wait_for(lambda: new.has_all_of(old), "the replica", 60)
    wait_for(lambda: "'state': 'online'" in str(old.info()), "the replica to be online", 60)
    old.run("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 30_000)
    wait_for(lambda: old.follows(new), "the failover", 60)


def test_a_job_moves_to_the_engine_and_back(spark: SparkSession, tmp_path: Path) -> None:
    """With one checkpoint, each row is written once and in order, first on Redis, then on the engine, then on Redis
    again.

    The first move happens in the middle of a batch. Pending entries of another group keep their consumer.
    """
    checkpoint = tmp_path / "checkpoint"
    with members("redis", "engine") as (production, engine):
        with production.client() as client, client.pipeline(transaction=False) as pipeline:
            for number in range(_ROWS):
                pipeline.xadd("in", {"n": number})
            pipeline.xgroup_create("in", "workers", "0").xreadgroup("workers", "w", {"in": ">"}, count=30).execute()
        broken = start(spark, f"redis://127.0.0.1:{production.port}", checkpoint, breaks=True)
        with pytest.raises(PySparkException, match="the job breaks"):
            broken.awaitTermination(240)
        with production.client() as client:
            half = numbers(client, "out")
            assert _BATCH < len(half) < 2 * _BATCH
            assert client.xpending("in", "g")["pending"] == _BATCH
        engine.run("REPLICAOF", "127.0.0.1", production.port)
        last = _ROWS
        for old, new in ((production, engine), (engine, production)):
            hand_over(old, new)
            moved = start(spark, f"redis://127.0.0.1:{new.port}", checkpoint, breaks=False)
            try:
                with new.client() as client:
                    client.xadd("in", {"n": last})
                    last += 1
                    moved.processAllAvailable()
                    assert sorted(numbers(client, "out")) == list(range(last))
                    assert numbers(client, "out")[: len(half)] == half
                    assert client.xpending("in", "g")["pending"] == 0
                    assert [consumer["name"] for consumer in client.xpending("in", "workers")["consumers"]] == [b"w"]
                    assert client.xpending("in", "workers")["pending"] == 30
            finally:
                moved.stop()
