"""Tests of the harness itself: releases, and the expectations for them."""

from __future__ import annotations

import pytest

from tests.harness.replies import as_sent
from tests.servers.releases import NEWEST, Newest, Release, release_in


def test_the_release_is_recognised() -> None:
    """A Valkey has the features of the Redis version that it derives from, and its own version is recognised."""
    assert release_in("Redis server v=8.6.3 sha=00000000:0") == Release((8, 6, 3))
    valkey = release_in("Valkey server v=9.1.2 sha=00000000:0")
    assert valkey is not None
    assert valkey.valkey == (9, 1, 2)
    assert (valkey.since("7.2"), valkey.since("7.4"), valkey.since("7.4", valkey="9.0")) == (True, False, True)
    assert release_in("nginx version: 1") is None


@pytest.mark.parametrize(
    ("release", "answer"),
    [
        (Release((7, 0, 15)), "old"),
        (Release((8, 6)), "new"),
        (NEWEST, "ours"),
        (Release((7, 2, 4), valkey=(8, 0)), "new"),
        (Release((7, 2, 4), valkey=(8, 1, 1)), "theirs"),
        (Release((7, 2, 4), valkey=(9, 1)), "their newest"),
    ],
)
def test_one_expectation_serves_all_releases(release: Release, answer: str) -> None:
    """Each release gets its own expected reply, at any depth within a reply."""
    expected = Newest("new", {"7.2": "old"}, valkey={"9.0": "their newest", "8.1": "theirs"}, engine="ours")
    assert as_sent([1, expected], 2, release) == [1, answer.encode()]
