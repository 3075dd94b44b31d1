"""Servers that several modules share, because starting them takes longer than what is tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.sentinels import Member, members


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Member]]:
    """Two engines and a real server, each of which may be anybody's replica when a test begins."""
    with members("engine", "engine", "redis") as (one, other, real):
        yield {"engine": one, "other engine": other, "redis": real}
