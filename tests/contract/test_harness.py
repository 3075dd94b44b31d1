"""Tests of the harness itself on each server."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import over_tcp, since
from tests.harness.replies import ANY, Map, as_sent
from tests.servers.releases import NEWEST, Newest, Release, release_in
from tests.suite.waiting import wait_for


def test_keys_are_gone_in_the_next_test(server: Server) -> None:
    """A key that one test creates is missing in the next test."""
    server.expect("DBSIZE", 0)
    server.given("SET left behind")


@since("99.0")
def test_servers_that_are_too_old_are_left_out(server: Server) -> None:
    """The mark ``since`` excludes servers that are too old."""
    assert server.kind != "redis"


@over_tcp
def test_over_tcp_excludes_the_core(server: Server) -> None:
    """The mark ``over_tcp`` excludes the core in process."""
    assert server.kind != "core"


def test_expectations_follow_the_protocol() -> None:
    """One expectation serves both protocols."""
    assert as_sent(Map({"a": 1}), 2) == [b"a", 1]
    assert as_sent(Map({"a": 1}), 3) == {b"a": 1}
    assert [1, {"x": object()}] == [1, ANY]


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


def test_waiting_times_out_with_a_reason() -> None:
    """Waiting for a condition that never holds ends with an error that names the condition."""
    with pytest.raises(TimeoutError, match="pigs to fly"):
        wait_for(lambda: False, "pigs to fly", deadline=0.01)
