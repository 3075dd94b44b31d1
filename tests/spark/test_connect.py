"""Spark Connect: a client with the server in its own process (`remote("local")`).

tests/cluster has one with a separate server process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import servers
from tests.spark.connect_client import assert_all_works, run_client
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.redis, long_only]


def test_a_client_with_the_server_in_its_own_process(redis_process: servers.Running, tmp_path: Path) -> None:
    """With `remote("local")`, reads, writes and queries work, and the client has the embedded engine because it is the
    driver's program.
    """
    found = run_client("local[2]", redis_process.url + "/6", tmp_path)
    assert_all_works(found)
    assert found["embedded"] == "unix://"
    assert found["refused"] == ""
