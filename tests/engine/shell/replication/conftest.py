"""Servers shared by several modules, because starting them takes longer than running the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.sentinels import Member, members


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Member]]:
    """Return two engines and a real server; at the start of a test none of them is a replica."""
    with members("engine", "engine", "redis") as (engine, other, real):
        yield {"engine": engine, "other engine": other, "redis": real}
