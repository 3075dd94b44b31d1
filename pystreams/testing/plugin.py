"""Pytest plugin: fixtures for servers, a Spark session and faults. Modules are imported when a fixture is used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pystreams.testing.proxy import FaultProxy
    from pystreams.testing.servers import Running
    from pystreams.testing.streams import Server


def pytest_configure() -> None:
    # Turn off the warning that data is in memory (`spark_streams.embedded.launcher`): in tests this is intended.
    os.environ.setdefault("PYSTREAMS_EMBEDDED_NOTICES", "off")


@pytest.fixture(scope="session")
def pystreams_engine_process() -> Iterator[Running]:
    """The engine as a process, for the whole test run."""
    from pystreams.testing.servers import engine  # noqa: PLC0415 - only for tests that use it

    with engine(movable=True) as running:
        yield running


@pytest.fixture(scope="session")
def pystreams_redis_process() -> Iterator[Running]:
    """A real redis-server as a process, for the whole test run. Tests are skipped if redis-server is not on PATH."""
    from pystreams.testing.servers import redis  # noqa: PLC0415 - only for tests that use it

    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on PATH")
    with redis() as running:
        yield running


def _emptied(running: Running) -> Iterator[Server]:
    from pystreams.testing.streams import Server  # noqa: PLC0415 - only for tests that use it

    server = Server(running.url, running.port, running.clock)
    server.client.flushall()
    try:
        yield server
    finally:
        server.client.close()


@pytest.fixture
def pystreams_engine(pystreams_engine_process: Running) -> Iterator[Server]:
    """The engine, emptied before each test. `clock.advance(seconds)` moves its clock."""
    yield from _emptied(pystreams_engine_process)


@pytest.fixture
def pystreams_redis(pystreams_redis_process: Running) -> Iterator[Server]:
    """A real Redis, emptied before each test."""
    yield from _emptied(pystreams_redis_process)


@pytest.fixture
def pystreams_proxy(pystreams_engine: Server) -> Iterator[FaultProxy]:
    """A proxy in front of the engine that can delay, cut and refuse connections."""
    from pystreams.testing.proxy import proxy  # noqa: PLC0415 - only for tests that use it

    with proxy(pystreams_engine.port) as made:
        yield made


@pytest.fixture(scope="session")
def pystreams_spark(
    pystreams_engine_process: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A Spark session with the data source. Queries without a server use the engine of `pystreams_engine`.

    PYSTREAMS_URL is set meanwhile, so that tests never reach the server of the surrounding environment.
    """
    from pystreams.testing.session import session  # noqa: PLC0415 - only for tests that use it

    url = pystreams_engine_process.url
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYSTREAMS_URL", url)
        with session(tmp_path_factory.mktemp("warehouse"), url=url) as made:
            yield made
