"""Jobs that are killed repeatedly, only with LONG_TESTS=1: in the end, each row is stored once.

spark-submit, Python and its workers are killed together, at random times with a fixed seed. The last run completes.
"""

from __future__ import annotations

import random
import shutil
import time

import pytest
from archive import archive
from ingest import ingest
from replay import replay

from pystreams.jobs.job import Job
from tests.jobs.conftest import FILES, Departures, Jobs, archived, on
from tests.jobs.processes import submitted
from tests.jobs.test_figures import load
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
