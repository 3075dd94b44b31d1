"""`pystreams rm`: removing streams."""

from __future__ import annotations

import pytest
import redis

from tests.pystreams.conftest import Cli


@pytest.fixture
def streams(client: redis.Redis) -> redis.Redis:
    """`a` with three entries and a group that has read one, `b*` with one entry, and `ab`, which is not a stream."""
    for number in (1, 2, 3):
        client.xadd("a", {"n": number}, id=f"{number}-0")
    client.xadd("b*", {"n": 1}, id="1-0")
    client.set("ab", "text")
    client.xgroup_create("a", "g", 0)
    client.xreadgroup("g", "c", {"a": ">"}, count=1)
    return client


def test_streams_are_removed_by_name_or_glob(cli_of: Cli, streams: redis.Redis) -> None:
    """The preview shows entries and groups, and keys of other types are not removed."""
    shown = cli_of("rm", "*", "--dry-run").splitlines()
    assert [line.split() for line in shown[1:3]] == [["a", "3", "1"], ["b*", "1", "0"]]
    assert shown[-1] == "Would remove 2 streams with 4 entries and 1 group."
    assert "[NOT_CONFIRMED]" in cli_of.failure("rm", "*", status=2)
    assert "[TOO_MANY]" in cli_of.failure("rm", "*", "--limit", "1", "--yes", status=2)
    assert cli_of.json("rm", "b\\*", "--yes") == {
        "removed": 1,
        "entries": 1,
        "streams": [{"stream": "b*", "entries": 1, "groups": 0}],
    }
    assert sorted(streams.keys()) == [b"a", b"ab"]
    assert cli_of("rm", "a", "--yes") == "Removed 1 stream.\n"
    assert cli_of("rm", "*", "--yes") == "No stream matches.\n"
    assert streams.keys() == [b"ab"]
    assert "[NO_SUCH_STREAM]" in cli_of.failure("rm", "a", "--yes", status=4)
    assert "[NOT_A_STREAM]" in cli_of.failure("rm", "ab", "--yes", status=1)


def test_the_stream_of_a_spark_query_is_not_removed_silently(cli_of: Cli, streams: redis.Redis) -> None:
    """The preview warns if one of the stream's groups has a consumer of a Spark query."""
    streams.xgroup_createconsumer("a", "g", "app-query")
    assert "A Spark query reads a" in cli_of.result("rm", "a", "--dry-run").stderr
