"""The job `lag`: groups and streams that appear and disappear between samples, and invalid arguments."""

from __future__ import annotations

from collections.abc import Iterator

import lag
import pytest
import redis

from pystreams.streams.groups.status import Sample, Status
from spark_streams.config import options
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.pool import borrow, close_all
from streamclient.streams.lag import Budget
from tests import servers

#: Invalid arguments, the exit status, and the error.
_WRONG = [
    (["--to", "metrics:/nowhere/lag.prom"], 4, "[FILE_UNUSABLE] The file /nowhere/lag.prom cannot be used: No such"),
    (["--to", "metrics:/tmp"], 4, "[FILE_UNUSABLE] The file /tmp cannot be used: Is a directory"),
    (["--trigger", "0s"], 2, "[INVALID_VALUE] --trigger is '0s'"),
    (["--stream", "typo", "--above", "5"], 4, "[NO_SUCH_STREAM]"),
]


@pytest.fixture
def connection(instance: servers.Running, client: redis.Redis) -> Iterator[Connection]:
    address = options.server({"url": instance.url})
    assert isinstance(address, Address)
    with borrow(address) as made:
        yield made
    close_all()


def test_a_recreated_group_has_no_history(connection: Connection, client: redis.Redis) -> None:
    """The history of a deleted group is dropped, so a group created again is not reported as moved back."""
    history: dict[tuple[bytes, bytes], list[Sample]] = {}

    def sample(*streams: str) -> dict[tuple[str, str], Status]:
        found = lag._sample(connection, streams, "s*", None, history, Budget())
        return {(row.group.stream.name.decode(), row.group.name.decode()): row.status for row in found}

    for stream in ("s", "s2"):
        client.xadd(stream, {"n": 1})
        client.xgroup_create(stream, "g", "$")
    assert sample() == {("s", "g"): Status.OK, ("s2", "g"): Status.OK}
    client.delete("s")
    client.xgroup_destroy("s2", "g")
    client.set("s3", "no stream")
    assert (sample(), sample("s", "s2", "s3"), history) == ({}, {}, {})
    client.xadd("s", {"n": 1}, id="1-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    assert sample() == {("s", "g"): Status.OK}
    client.xgroup_setid("s", "g", "0")
    assert sample("s", "missing") == {("s", "g"): Status.REWIND}


@pytest.mark.parametrize(("words", "status", "says"), _WRONG, ids=lambda value: str(value)[:20])
def test_unusable_arguments_are_errors(
    connection: Connection, words: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unusable files, invalid values and missing streams have their own errors and exit statuses."""
    assert lag.lag.main([*words, "--url", connection.address.url], standalone_mode=False) == status
    assert says in capsys.readouterr().err
