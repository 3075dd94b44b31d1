"""A job that is asked to stop finishes its batch, and the next run continues after it."""

from __future__ import annotations

import re
import signal

import pytest
from archive import archive

from tests.jobs.choice import on
from tests.jobs.conftest import Jobs, archived
from tests.jobs.processes import PATIENCE, submitted
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@long_only
@on("redis")
def test_sigterm_to_spark_submit_ends_the_job_after_its_batch(jobs: Jobs) -> None:
    """After SIGTERM to the JVM alone, as from a service manager, each started batch is complete."""
    pipeline = jobs.client.pipeline(transaction=False)
    for n in range(20_000):
        pipeline.xadd("s", {"n": n})
    pipeline.execute()
    written = jobs.entries("s")
    words = ["--stream", "s", "--to", jobs.path("archive"), "--trim-behind", "--url", jobs.url]
    with submitted(jobs.directory, "archive", *words, "--max-entries", 500, "--trigger", "200ms") as job:
        job.wait_for("batch 1: 500 rows")
        job.process.send_signal(signal.SIGTERM)
        job.process.wait(PATIENCE)
        text = job.text
    assert "stopping after this batch" in text
    ended = re.search(r"stopped: ([0-9,]+) rows in ([0-9]+) batch", text)
    assert ended is not None, text
    assert "Traceback" not in text
    rows = int(ended[1].replace(",", ""))
    assert (rows, 2 <= int(ended[2]) < 40) == (500 * int(ended[2]), True)
    assert archived(jobs.path("archive")) == written[:rows]

    jobs.run(archive, *words[:-2])
    assert archived(jobs.path("archive")) == written
    assert jobs.client.xlen("s") == 0
