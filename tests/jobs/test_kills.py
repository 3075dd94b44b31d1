"""Jobs that are killed repeatedly, only with LONG_TESTS=1: in the end, each row is stored once.

spark-submit, Python and its workers are killed together, at random times with a fixed seed. The last run completes.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter

import pandas as pd
import pytest
from aggregate import aggregate
from archive import archive
from ingest import ingest
from join import join
from replay import replay

from pystreams.jobs.job import Job
from tests.jobs.conftest import FILES, Departures, Jobs, archived, on
from tests.jobs.processes import submitted
from tests.jobs.test_figures import SCHEMA, figures, frame, load
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow, long_only]
KILLS = 2


def killed(jobs: Jobs, job: Job, *words: object, live: str = "--trigger=100ms") -> None:
    """Kill the job KILLS times during its work, then run it to completion."""
    draw = random.Random(job.name)
    for _ in range(KILLS):
        killed_once(jobs, job, *words, live=live, seconds=draw.uniform(0, 1.5))
    jobs.run(job, *words)


def killed_once(jobs: Jobs, job: Job, *words: object, live: str = "--trigger=100ms", seconds: float) -> None:
    """Start the job, and kill it this many seconds after its first progress message."""
    assert job.name is not None
    with submitted(jobs.directory, job.name, *words, *([live] if live else []), "--url", jobs.url) as running:
        running.wait_for("batch ", " of ", "done")
        time.sleep(seconds)
        if not running.ended:
            running.kill()


@on("engine")
def test_ingest(jobs: Jobs, departures: Departures) -> None:
    """Each row of many small files is in the stream once."""
    landing = jobs.path("landing")
    landing.mkdir()
    rows = departures.table.num_rows // 30
    for number in range(30):
        table = departures.table.slice(number * rows, rows).to_pandas()
        table.to_csv(landing / f"{number:02}.csv", index=False)
    killed(
        jobs, ingest, "--from", landing, "--format", "csv", "--stream", "flights",
        "--file-option", "maxFilesPerTrigger=1",
        "--checkpoint", jobs.path("checkpoint"),
    )  # fmt: skip
    found = Counter(frozenset(row.items()) for row in jobs.rows("flights"))
    assert found == Counter(frozenset(row.items()) for row in departures.rows[: 30 * rows])


@on("engine")
def test_archive_with_trimming(jobs: Jobs, departures: Departures) -> None:
    """`archive` moves each entry to the archive once, in order, and `replay` adds each entry once."""
    load(jobs, "flights", departures.table)
    written = jobs.entries("flights")
    words = ["--stream", "flights", "--to", jobs.path("archive"), "--trim-behind", "--max-entries", 1000]
    killed(jobs, archive, *words)
    assert archived(jobs.path("archive")) == written
    assert jobs.client.xlen("flights") == 0

    words = ["--from", jobs.path("archive"), "--to", "again", "--checkpoint", jobs.path("replay")]
    killed(jobs, replay, *words, "--max-entries", 1000, live="")
    assert jobs.entries("again") == written
    assert "[REPLAY_OTHER]" in jobs.run(replay, *words, "--ids", "new", status=1)


@on("engine")
def test_aggregate(jobs: Jobs, departures: Departures) -> None:
    load(jobs, "flights", departures.table)
    killed(
        jobs, aggregate, "--stream", "flights", "--schema", SCHEMA, "--time", "time_hour", "--watermark", "1h",
        "--sql", figures("1 hour"), "--to", "stream:figures", "--checkpoint", jobs.path("checkpoint"),
        "--max-entries", 2000,
    )  # fmt: skip
    rows = frame(departures.table)
    whole = rows[rows["time_hour"] + pd.Timedelta(hours=1) <= rows["time_hour"].max() - pd.Timedelta(hours=1)]
    expected = whole.groupby(["time_hour", "origin"])["dep_delay"].agg(["size", "sum"])
    found = [
        (pd.Timestamp(row["window_start"]), row["origin"], int(row["n"]), int(row.get("minutes", 0)))
        for row in jobs.rows("figures")
    ]
    pairs = zip(expected.index, expected.to_numpy(), strict=True)
    assert sorted(found) == sorted((*key, int(n), int(total)) for key, (n, total) in pairs)


@on("engine")
def test_join(jobs: Jobs, departures: Departures) -> None:
    """Departures joined with themselves give each pair once."""
    load(jobs, "left", departures.table.slice(0, 6000))
    load(jobs, "right", departures.table.slice(0, 6000))
    schema = "origin string, carrier string, time_hour timestamp, flight int, sched_dep_time int"
    keys = [word for key in ("origin", "carrier", "flight", "sched_dep_time") for word in ("--on", key)]
    killed(
        jobs, join, "--left", "left", "--left-schema", schema, "--left-time", "time_hour", "--right", "right",
        "--right-schema", schema, "--right-time", "time_hour", *keys, "--within", "1m", "--watermark", "1h",
        "--to", "stream:both", "--checkpoint", jobs.path("checkpoint"), "--max-entries", 500,
    )  # fmt: skip
    left = frame(departures.table.slice(0, 6000))
    keys = ["origin", "carrier", "flight", "sched_dep_time", "time_hour"]
    both = left[keys].merge(left[keys], on=keys)
    assert Counter(row["flight"] for row in jobs.rows("both")) == Counter(both["flight"])


@on("engine")
def test_a_directory_that_grows_while_the_job_is_killed(jobs: Jobs, departures: Departures) -> None:
    """`ingest` by key from a growing directory keeps each key in one partition, in order."""
    landing = jobs.path("landing")
    landing.mkdir()
    words = [
        "--from", landing, "--format", "csv", "--stream", "by", "--partitions", 4, "--key", "carrier",
        "--checkpoint", jobs.path("checkpoint"),
    ]  # fmt: skip
    draw = random.Random(0)
    for file in departures.files:
        shutil.copy(file, landing)
        killed_once(jobs, ingest, *words, seconds=draw.uniform(0, 1.5))
    jobs.run(ingest, *words)
    rows = [row for number in range(4) for row in jobs.rows(f"by:{{{number}}}")]
    by_carrier = {row["carrier"]: [] for row in rows}
    for row in rows:
        by_carrier[row["carrier"]].append(row)
    assert len(departures.files) == FILES
    for carrier, some in by_carrier.items():
        assert some == [row for row in departures.rows if row["carrier"] == carrier]
