"""`pystreams server replication`: masters and replicas, and planned failover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from pystreams.streams import servers as questions
from spark_streams.errors import PystreamsError
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests import servers
from tests.pystreams.conftest import Cli
from tests.servers import sentinels, topologies
from tests.suite.waiting import wait_for


@pytest.fixture(scope="module")
def watched() -> Iterator[topologies.Watched]:
    with topologies.watched() as made:
        yield made


def _servers(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli.json("server", "replication")["servers"]
    return found


def test_replication_is_shown_and_a_replica_promoted(watched: topologies.Watched, tmp_path: Path) -> None:
    """With Sentinel, the command returns the address of the new master after the failover is complete."""
    cli = Cli(watched.url, tmp_path)
    before = f"127.0.0.1:{watched.now_master()}"
    assert [(each["role"], each["state"]) for each in _servers(cli)] == [("master", "online"), ("replica", "online")]
    assert "[NOT_CONFIRMED]" in cli.failure("server", "replication", "--failover", status=2)
    moved = cli.json("server", "replication", "--failover", "--yes")
    assert (moved["from"], moved["to"]) == (before, f"127.0.0.1:{watched.now_master()}")
    assert moved["to"] != before
    wait_for(lambda: len(_servers(cli)) == 2, "the old master to follow", 40)

    def of_both() -> bool:
        with closing(Connection(Address(watched.url))) as connection:
            return {str(each) for each in questions.servers(connection)} == {moved["from"], moved["to"]}

    wait_for(of_both, "the Sentinels to list the old master as a replica", 40)


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_failover_without_a_replica_is_refused(cli_of: Cli, client: redis.Redis) -> None:
    """A failover without a replica fails with NO_REPLICA, and so does its preview."""
    for how in ("--yes", "--dry-run"):
        assert "[NO_REPLICA]" in cli_of.failure("server", "replication", "--failover", how, status=4)


@pytest.mark.parametrize("kind", ["engine", "redis"])
def test_a_replica_is_promoted_without_sentinels(kind: str, tmp_path: Path) -> None:
    """FAILOVER promotes the replica, and the old master follows it."""
    with sentinels.family(kind, kind) as (master, replica):
        cli = Cli(f"redis://127.0.0.1:{master.port}", tmp_path)
        moved = cli.json("server", "replication", "--failover", "--yes")
        assert moved["to"] == f"127.0.0.1:{replica.port}"
        wait_for(lambda: master.follows(replica), "the old master to follow", 40)
        (found,) = _servers(cli)
        assert (found["role"], found["state"]) == ("replica", f"up, of 127.0.0.1:{replica.port}")


def test_a_failover_that_does_not_happen_is_an_error(
    instance: servers.Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command fails with FAILOVER_UNFINISHED if the server is still the master at the timeout."""
    monkeypatch.setattr(questions, "ask_one", lambda *_: b"role:master")
    connection = Connection(Address(instance.url))
    try:
        with pytest.raises(PystreamsError, match="FAILOVER_UNFINISHED"):
            questions.fail_over(connection, 0.01)
    finally:
        connection.close()


def test_a_failover_without_reachable_sentinels_is_an_error(watched: topologies.Watched) -> None:
    """A failover fails with NO_SENTINEL if no Sentinel is reachable."""
    connection = Connection(Address(watched.url))
    connection.serve(Address("redis+sentinel://127.0.0.1:1/main"))
    try:
        with pytest.raises(PystreamsError, match="NO_SENTINEL"):
            questions.fail_over(connection, 1)
    finally:
        connection.close()


def test_a_cluster_lists_every_server(cluster: topologies.Cluster, tmp_path: Path) -> None:
    """Each row names its node, and `--failover` is refused on a cluster."""
    cli = Cli(cluster.url, tmp_path)
    nodes = {f"{node.host}:{node.port}" for node in cluster.nodes}
    assert {each["node"] for each in _servers(cli)} == nodes
    cli.failure("server", "replication", "--failover", "--yes", status=2)
