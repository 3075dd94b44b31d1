"""The whole main job on part of its data: with spark-submit and the embedded engine, and
interrupted on a real Redis.
"""

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import flight_delays
import pandas as pd
import pytest
import redis
from pyspark.sql import SparkSession

from pystreams.jobs import flight_check
from pystreams.jobs.run import Run
from tests import ROOT
from tests.servers import Running
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@long_only
def test_spark_submit_runs_the_job_on_the_embedded_engine(tmp_path: Path) -> None:
    """spark-submit runs the job on the embedded engine, and the job finds that all results equal those of pandas.

    The user's own packages `jobs` and `engine`, in the working directory and on PYTHONPATH, do not replace ours.
    """
    for name in ("jobs", "engine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the user has not asked for this')")
    submit = str(Path(sys.executable).parent / "spark-submit")
    environment = {key: value for key, value in os.environ.items() if key != "PYSTREAMS_URL"}
    result = subprocess.run(
        [submit, str(ROOT / "jobs" / "flight_delays.py"), "--limit", "3000"],
        cwd=tmp_path,
        env={
            **environment,
            "PYTHONPATH": str(tmp_path),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(ROOT / "conf"),
            "TMPDIR": str(tmp_path),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Every figure and every alert equals the result from pandas." in result.stdout
    assert "flights 3,000, weather 26,115, statistics " in result.stdout
    assert result.stdout.count("0 pending, lag 0") == 2


@pytest.fixture
def url(spark_redis: Running) -> str:
    """The URL of a real Redis without keys."""
    with redis.Redis.from_url(spark_redis.url) as client:
        client.flushall()
    return spark_redis.url


@pytest.mark.redis
@pytest.mark.parametrize("limits", [(300,), pytest.param((2_000, 3_000), marks=long_only)])
def test_a_run_with_the_same_checkpoint_continues_the_one_before(
    spark: SparkSession, url: str, tmp_path: Path, limits: tuple[int, ...]
) -> None:
    """The results equal those of pandas. A run with the checkpoint of an earlier one reads only new departures: each is
    counted once, and each alert is written once.
    """
    before = 0
    with closing(Run("flight_delays", url=url, options={}, checkpoint=str(tmp_path))) as job:
        for limit in limits:
            outcome = flight_delays.run(job, str(tmp_path), limit)
            both = flight_check.joined(limit)
            assert flight_delays.problems(outcome, both) == []
            assert set(outcome.read.values()) == {limit - before}
            before = limit
    for wrong, lines in (
        (replace(outcome, lengths={**outcome.lengths, "weather": 1}), 1),
        (replace(outcome, groups={**outcome.groups, "late-departures": (1, 0)}), 1),
        (replace(outcome, alerts=pd.concat([outcome.alerts, outcome.alerts[:1]])), min(1, len(outcome.alerts))),
        (replace(outcome, statistics=outcome.statistics[1:]), 1),
    ):
        assert len(flight_delays.problems(wrong, both)) == lines


@pytest.mark.redis
def test_a_new_run_refuses_the_streams_of_an_old_one(
    spark: SparkSession, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with redis.Redis.from_url(url) as client:
        client.xadd("flights", {"flight": "1"})
    assert flight_delays.flight_delays.main(["--url", url], standalone_mode=False) == 1
    assert "[LEFTOVERS]" in (errors := capsys.readouterr().err)
    assert "DEL flights" in errors
