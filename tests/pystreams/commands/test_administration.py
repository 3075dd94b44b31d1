"""`pystreams server`: clients, slow log, settings, users and replication. Changes need an option and a confirmation."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
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


def test_clients_are_listed_and_disconnected(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """`--kill` needs a confirmation and disconnects only the client with the given ID."""
    with redis.Redis(port=instance.port, protocol=2, client_name="to-go") as other:
        other.ping()
        (row,) = [each for each in cli_of.json("server", "clients")["clients"] if each["name"] == "to-go"]
        assert (row["user"], row["node"]) == ("default", f"{instance.host}:{instance.port}")
        assert "to-go" in cli_of("server", "clients", "--sort", "age")
        assert cli_of.json("server", "clients", "--limit", "1", "--user", "default")["clients"]
        kill = ("server", "clients", "--kill", str(row["id"]))
        assert "[NOT_CONFIRMED]" in cli_of.failure(*kill, status=2)
        assert cli_of(*kill, "--dry-run").startswith("Would disconnect 1 client (")
        assert cli_of(*kill, "--yes") == "Disconnected 1 client.\n"
        names = [each["name"] for each in cli_of.json("server", "clients")["clients"]]
        assert "to-go" not in names
        assert "[NO_SUCH_CLIENT]" in cli_of.failure(*kill, "--yes", status=4)


def test_the_slow_log_is_shown_and_discarded(cli_of: Cli, client: redis.Redis) -> None:
    """The slow log shows the newest command first and truncates long commands; `--reset` empties it."""
    before = client.config_get("slowlog-log-slower-than")
    client.slowlog_reset()
    client.config_set("slowlog-log-slower-than", 0)
    try:
        client.xadd("s", {f"field-{number}": "x" * 500 for number in range(20)})
    finally:
        client.config_set("slowlog-log-slower-than", before["slowlog-log-slower-than"])
    found = cli_of.json("server", "slowlog", "--limit", "200")["commands"]
    (added,) = [each for each in found if each["command"].startswith("XADD s * field-0 xxx")]
    assert (len(added["command"]) < 2000, "more)" in added["command"]) == (True, True)
    assert [each["at"] for each in found] == sorted((each["at"] for each in found), reverse=True)
    assert "XADD s" in cli_of("server", "slowlog")
    assert "[NOT_CONFIRMED]" in cli_of.failure("server", "slowlog", "--reset", status=2)
    cli_of("server", "slowlog", "--reset", "--yes")
    assert cli_of.json("server", "slowlog")["commands"] == []


def test_settings_are_shown_and_changed(cli_of: Cli, client: redis.Redis) -> None:
    """One command changes several settings, and passwords are never shown."""
    try:
        client.config_set("masterauth", "hush")
        text = cli_of("server", "config", "maxmemory*", "masterauth", "-o", "csv")
        shown = {row["name"]: row["value"] for row in csv.DictReader(io.StringIO(text))}
        assert (shown["maxmemory-policy"], shown["masterauth"]) == ("noeviction", "(hidden)")
        change = ("server", "config", "--set", "maxmemory=200mb", "--set", "masterauth=other")
        preview = cli_of(*change, "--dry-run")
        assert ("from '0' to '200mb'" in preview, "hush" in preview, "other" in preview) == (True, False, False)
        assert client.config_get("maxmemory") == {"maxmemory": "0"}
        assert "[NOT_CONFIRMED]" in cli_of.failure(*change, status=2)
        assert cli_of(*change, "--yes") == "Changed 2 settings of 1 server.\n"
        assert client.config_get("maxmemory") == {"maxmemory": str(200 << 20)}
    finally:
        client.config_set("maxmemory", 0)
        client.config_set("masterauth", "")
    cli_of.failure("server", "config", "maxmemory", "--set", "maxmemory=1gb", "--yes", status=2)
    cli_of.failure("server", "config", "--set", "maxmemory", "--yes", status=2)


def test_users_are_shown_changed_and_removed(
    cli_of: Cli, client: redis.Redis, instance: servers.Running, tmp_path: Path
) -> None:
    """The password is read from a file, is not shown, and replaces passwords given in the rules."""
    assert cli_of.json("server", "acl", "default")["users"][0]["commands"] == "+@all"
    (file := tmp_path / "password").write_text("hush\n")
    change = ("server", "acl", "reader", "--set", "on ~orders* +ping >old", "--password-file", str(file))
    preview = cli_of(*change, "--dry-run")
    assert ("hush" in preview, "old" in preview, "~orders*" in preview) == (False, False, True)
    assert "[NO_SUCH_USER]" in cli_of.failure("server", "acl", "reader", status=4)
    assert "[NOT_CONFIRMED]" in cli_of.failure(*change, status=2)
    try:
        cli_of(*change, "--yes")
        with redis.Redis(port=instance.port, username="reader", password="hush") as reader:
            assert reader.ping()
        (user,) = cli_of.json("server", "acl", "reader")["users"]
        assert (user["enabled"], user["passwords"], user["needs_password"]) == (True, 1, True)
        assert (user["keys"], "+ping" in user["commands"]) == ("~orders*", True)
        assert "reader" in cli_of("server", "acl")
        cli_of("server", "acl", "reader", "--rm", "--yes")
    finally:
        client.acl_deluser("reader")
    assert "[NO_SUCH_USER]" in cli_of.failure("server", "acl", "reader", "--rm", "--yes", status=4)
    for words in (["--set", "on"], ["reader", "--rm", "--set", "on"], ["reader", "--password-file", str(file)]):
        cli_of.failure("server", "acl", *words, "--yes", status=2)


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
        found = cli.json("server", "config", "port", "--replicas")["settings"]
        return {each["node"] for each in found} == {moved["from"], moved["to"]}

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
    """Each row names its node, `--node` selects one node, and `--kill` and `--failover` require
    `--node` on a cluster.
    """
    cli = Cli(cluster.url, tmp_path)
    nodes = {f"{node.host}:{node.port}" for node in cluster.nodes}
    for verb, member in (("clients", "clients"), ("acl", "users"), ("replication", "servers")):
        assert {each["node"] for each in cli.json("server", verb)[member]} == nodes
    assert "NODE" in cli("server", "config", "port").splitlines()[0]
    node = min(nodes)
    (only,) = cli.json("server", "config", "port", "--node", node)["settings"]
    assert (only["node"], only["value"]) == (node, node.rpartition(":")[2])
    assert "[NO_SUCH_NODE]" in cli.failure("server", "clients", "--node", "127.0.0.1:1", status=4)
    cli.failure(
        "server", "clients", "--kill", str(cli.json("server", "clients")["clients"][0]["id"]), "--yes", status=2
    )
    cli.failure("server", "replication", "--failover", "--yes", status=2)


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_removing_ones_own_user_causes_a_warning(cli_of: Cli, instance: servers.Running) -> None:
    """The preview warns if the command would remove the user that it is logged in as."""
    assert "the user default, your own login, of " in cli_of("server", "acl", "default", "--rm", "--dry-run")
