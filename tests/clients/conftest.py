"""The two servers that real clients are driven on, side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.servers import Running


@pytest.fixture(scope="module")
def ours() -> Iterator[Running]:
    with servers.engine() as running:
        yield running


@pytest.fixture(scope="module")
def real() -> Iterator[Running]:
    if servers.redis_server() is None:
        if servers.redis_required():
            pytest.fail("no redis-server found on PATH")
        pytest.skip("no redis-server found on PATH (REQUIRE_REDIS=1 makes that a failure)")
    with servers.redis() as running:
        yield running
