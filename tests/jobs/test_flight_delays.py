"""The job `flight_delays`: its data, its computation, its check, and whole runs on part of its data."""

import os
import subprocess
import sys
from pathlib import Path

import flight_delays
import pandas as pd
import pyarrow as pa
import pytest
from flight_delays import FIGURES, KEYS, differences
from pyspark.sql import SparkSession

from tests import ROOT
from tests.jobs.conftest import Jobs, on
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_spark_and_pandas_agree_on_all_departures(spark: SparkSession) -> None:
    """Both count every departure once, and put it into the band of its airport's visibility in that hour."""
    tables = flights, weather = flight_delays.departures(), flight_delays.weather_readings()
    assert (len(flights), len(weather)) == (336_776, 26_115)
    assert flights["time_hour"].is_monotonic_increasing
    assert weather["time_hour"].is_monotonic_increasing
    wanted = flight_delays.expected(flights, weather)
    assert wanted[["scheduled", "cancelled", "very_late"]].sum().to_list() == [336_776, 8_255, 3_893]
    assert set(wanted["visibility"]) == set(flight_delays.BANDS)
    frames = [spark.createDataFrame(pa.Table.from_pandas(each, preserve_index=False)) for each in tables]
    typed = [
        frame.withColumn(name, frame[name].cast(kind))
        for frame, name, kind in zip(frames, ("dep_delay", "visib"), ("int", "double"), strict=True)
    ]
    found = flight_delays.delay_statistics(flight_delays.with_weather(*typed)).toPandas()
    assert len(differences(wanted, found)) == 0


ROW = ("JFK", "<1", 3, 1, 1, 0, 20.0, 10.5, None)


@pytest.mark.parametrize("column", range(len(ROW)))
def test_every_figure_is_compared(column: int) -> None:
    """A changed value gives a row of each table. Rounding, number types and the order of rows make no difference."""

    def table(*rows: tuple[object, ...]) -> pd.DataFrame:
        return pd.DataFrame([*rows], columns=[*KEYS, *FIGURES])

    other, near = ("LGA", *ROW[1:]), ("JFK", "<1", 3.0, 1, 1, 0, 20, 10.5 * (1 + 1e-12), float("nan"))
    assert len(differences(table(ROW, other), table(other, near))) == 0
    changed = [*ROW[:column], "EWR" if column < 2 else 7, *ROW[column + 1 :]]
    found = differences(table(ROW, other), table(other, tuple(changed)))
    assert sorted(found["in"]) == ["pandas", "the stream"]
    assert list(differences(table(ROW, other), table(ROW))["in"]) == ["pandas"]


@on("redis")
def test_a_run_equals_pandas_and_refuses_streams_of_an_earlier_run(jobs: Jobs) -> None:
    output = jobs.run(flight_delays.flight_delays, "--limit", 300)
    assert "flights 300, weather 26,115, statistics " in output
    assert "Every figure equals the result from pandas." in output
    assert "[LEFTOVERS]" in jobs.run(flight_delays.flight_delays, status=1)
    assert "DEL flights weather statistics" in jobs.output


@long_only
def test_spark_submit_runs_the_job_on_the_embedded_engine(tmp_path: Path) -> None:
    """The user's own packages `jobs` and `engine`, in the working directory and on PYTHONPATH, do not replace ours."""
    for name in ("jobs", "engine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the user has not asked for this')")
    environment = {key: value for key, value in os.environ.items() if key != "PYSTREAMS_URL"}
    environment |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    environment |= {"PYTHONPATH": str(tmp_path), "SPARK_CONF_DIR": str(ROOT / "conf"), "TMPDIR": str(tmp_path)}
    result = subprocess.run(
        [Path(sys.executable).parent / "spark-submit", ROOT / "jobs" / "flight_delays.py", "--limit", "3000"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 pending, lag 0\nEvery figure equals the result from pandas." in result.stdout
