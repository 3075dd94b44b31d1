"""The fixtures `jobs` (a server, and jobs that run in this process on its Spark) and `departures` (real data).

A test names the server that it runs on in `make test` with `on`; with LONG_TESTS=1 it runs on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flight_delays
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis
from pyspark.sql import SparkSession

from pystreams.jobs.job import Job
from tests.suite.long import FULL

ROWS = 12_000 if FULL else 900


def on(server: str) -> pytest.MarkDecorator:
    """Run the test on this server, or with LONG_TESTS=1 on redis and on the engine."""
    names = ["redis", "engine"] if FULL else [server]
    marks = {"redis": [pytest.mark.redis], "engine": []}
    return pytest.mark.parametrize("jobs", [pytest.param(name, marks=marks[name]) for name in names], indirect=True)


@dataclass
class Jobs:
    """A server without keys, its client, and a directory. `output`: the output of the last job."""

    url: str
    client: redis.Redis
    directory: Path
    capture: pytest.CaptureFixture[str]
    output: str = ""

    def run(self, job: Job, *words: object, status: int = 0) -> str:
        """Run a job in this process, which must end with this status; return its stdout and stderr."""
        found = job.main([*map(str, words), "--url", self.url], standalone_mode=False) or 0
        captured = self.capture.readouterr()
        self.output = captured.out + captured.err
        assert found == status, self.output
        return self.output

    def path(self, name: str) -> Path:
        return self.directory / name

    def entries(self, stream: str) -> list[tuple[str, dict[str, str]]]:
        """Return all entries of a stream."""
        found: Any = self.client.xrange(stream)
        return found

    def rows(self, stream: str) -> list[dict[str, str]]:
        """Return the fields of all entries of a stream, in order."""
        return [fields for _, fields in self.entries(stream)]


@pytest.fixture
def jobs(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Jobs]:
    """Jobs on the server that is named by the test's parameter."""
    server = request.getfixturevalue(f"spark_{request.param}")
    with redis.Redis(host=server.host, port=server.port, decode_responses=True, protocol=2) as client:
        client.flushall()
        yield Jobs(server.url, client, tmp_path, capsys)
        client.flushall()


@pytest.fixture(scope="session")
def departures() -> pa.Table:
    """The first departures of 2013 as texts."""
    return pa.Table.from_pandas(flight_delays.departures().head(ROWS), preserve_index=False)


def archived(directory: Path) -> list[tuple[str, dict[str, str]]]:
    """Return ID and fields of an archive's rows in the order of IDs, read without Spark."""
    found = []
    for file in directory.glob("day=*/batch=*/*.parquet"):
        table = pq.read_table(file, partitioning=None)
        found += [
            (entry, dict(fields))
            for entry, fields in zip(table["_id"].to_pylist(), table["fields"].to_pylist(), strict=True)
        ]
    return sorted(found, key=lambda row: tuple(map(int, row[0].split("-"))))
