"""Jobs that are killed repeatedly, only with LONG_TESTS=1: in the end, each row is stored once.

spark-submit, Python and its workers are killed together, at random times with a fixed seed. The last run completes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from archive import archive
from replay import replay

from pystreams.jobs.job import Job
from tests import ROOT
from tests.jobs.conftest import Jobs, archived, on
from tests.jobs.test_figures import load
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow, long_only]
KILLS = 2
PATIENCE = 180.0  # maximum seconds until a job's first message, on a busy machine


def killed(jobs: Jobs, job: Job, *words: object, live: tuple[str, ...] = ()) -> None:
    """Kill the job repeatedly after a progress message, then complete it. `live`: arguments of the killed runs only."""
    draw = random.Random(job.name)
    output = jobs.directory / "output.txt"
    environment = {"PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(ROOT / "conf"), "TMPDIR": str(jobs.directory)}
    command = [sys.executable, "-m", "pystreams", "jobs", "run", "--submit", "--master local[2]", str(job.name)]
    for _ in range(KILLS):
        with (
            output.open("wb") as sink,
            subprocess.Popen(
                [*command, *map(str, words), *live, "--url", jobs.url],
                cwd=jobs.directory,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                wait_for(lambda: any(word in output.read_text() for word in ("batch ", " of ", "done")), "it", PATIENCE)
                time.sleep(draw.uniform(0, 1.5))
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
    jobs.run(job, *words)


@on("engine")
def test_archive_with_trimming(jobs: Jobs, departures: pa.Table) -> None:
    """`archive` moves each entry to the archive once, in order, and `replay` adds each entry once."""
    load(jobs, "flights", departures)
    written = jobs.entries("flights")
    words = ["--stream", "flights", "--to", jobs.path("archive"), "--trim-behind", "--max-entries", 1000]
    killed(jobs, archive, *words, live=("--trigger=100ms",))
    assert archived(jobs.path("archive")) == written
    assert jobs.client.xlen("flights") == 0

    words = ["--from", jobs.path("archive"), "--to", "again", "--checkpoint", jobs.path("replay")]
    killed(jobs, replay, *words, "--max-entries", 1000)
    assert jobs.entries("again") == written
    assert "[REPLAY_OTHER]" in jobs.run(replay, *words, "--ids", "new", status=1)
