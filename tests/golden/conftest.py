"""Fixtures: a real Redis and the engine in turn, and the engine alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from streamclient import pool
from tests import servers
from tests.harness.sites import client
from tests.spark_streams.driver import Site

__all__ = ["client", "engine_site"]


@pytest.fixture
def engine_site(engine_process: servers.Running) -> Iterator[Site]:
    """Engine without keys, which tests fill to compare its data with golden files."""
    with redis.Redis(host=engine_process.host, port=engine_process.port) as made:
        made.flushall()
        yield Site(engine_process.url, made, "engine")
        made.flushall()
    pool.close_all()
