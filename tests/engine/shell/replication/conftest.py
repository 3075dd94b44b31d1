"""Servers shared by several modules, because starting them takes longer than running the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.sentinels import Member, members


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Member]]:
    """Yield two engines and a real server by name; an earlier test may have left one of them as a replica."""
    with members("engine", "engine", "redis") as (engine, other, real):
        yield {"engine": engine, "other engine": other, "redis": real}
