"""The engine and a real Redis, on which the clients of other projects are run."""

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
    with servers.redis() as running:
        yield running
