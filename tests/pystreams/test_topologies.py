"""The verbs, the dashboard and the metrics on a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import redis

from pystreams.connect import Wanted
from tests import servers
from tests.pystreams.conftest import Cli
from tests.pystreams.dashboard.conftest import dashboard_of
from tests.pystreams.metrics.exposed import parsed, value
from tests.servers import topologies

_STREAMS = [f"s{number}" for number in range(1, 8)]  # these names are spread over all three masters of the cluster


def _walk(cli: Cli, tmp_path: Path, get: Callable[[str], int]) -> None:
    """Run the verbs one after the other on seven streams."""
    for name in _STREAMS:
        cli("produce", name, "n=1")
        cli("produce", name, "-f", "-", "--format", "jsonl", stdin='{"n": 2}\n{"n": 3}\n')
    assert sorted(each["stream"] for each in cli.json("ls", "s*")["streams"]) == sorted(_STREAMS)
    assert cli.json("info", "s7")["length"] == 3
    lines = [json.loads(line) for line in cli("tail", "s*", "--from", "start", "--json").splitlines()]
    assert sorted((each["stream"], each["fields"]["n"]) for each in lines) == sorted(
        (name, n) for name in _STREAMS for n in "123"
    )
    for name in _STREAMS:
        cli("groups", "create", name, "g", "--at", "start", "--yes")
        cli("consume", name, "--group", "g", "--consumer", "c", "--limit", "2")
    lags = cli.json("groups", "lag", "s*")["groups"]
    assert {(each["stream"], each["lag"], each["pending"]) for each in lags} == {(name, 1, 2) for name in _STREAMS}
    found = parsed(cli("metrics", "--once", "--consumer-metrics").encode())
    for name in _STREAMS:
        assert value(found, "redis_stream_group_lag", db="db0", stream=name, group="g") == 1
        assert (
            value(found, "redis_stream_group_consumer_messages_pending", db="db0", stream=name, group="g", consumer="c")
            == 2
        )
    cli("groups", "seek", "s1", "g", "--to", "end", "--yes")
    cli("pending", "claim", "s1", "g", "--to", "d", "--consumer", "c", "--yes")
    cli("pending", "ack", "s1", "g", "--all", "--yes")
    described = cli.json("groups", "describe", "s1", "g")
    assert (described["lag"], described["pending"]) == (0, 0)
    cli("export", "s2", str(tmp_path / "file.jsonl"))
    cli("import", str(tmp_path / "file.jsonl"), "again")
    cli("copy", "s2", "copied")
    assert (get("again"), get("copied")) == (3, 3)
    cli("trim", "s2", "--maxlen", "1", "--yes")
    assert get("s2") == 1
    moved = cli.json("groups", "seek", "s*", "--all-groups", "--to", "start", "--yes")
    assert {each["to"] for each in moved["groups"]} == {"0-0"}
    assert cli.json("groups", "rm", "s*", "--all-groups", "--yes")["removed"] == moved["moved"]
    assert cli.json("rm", "again", "copied*", "--yes")["removed"] == 2
    assert cli.json("server", "replication")["servers"][0]["role"] == "master"
    assert {each["verdict"] for each in json.loads(cli.result("doctor", "--json").stdout)["findings"]} <= {
        "ok",
        "note",
        "warning",
    }


def _seen(wanted: Wanted, client: redis.Redis | redis.RedisCluster) -> None:
    """Check the dashboard's screens and changes, with streams of all masters."""
    for name in _STREAMS:
        for number in range(1, 4):
            client.xadd(name, {"n": number}, id=f"{number}-0")
        client.xgroup_create(name, "h", 0)
        client.xreadgroup("h", "c", {name: ">"}, count=2)
    with dashboard_of(wanted, changes=True) as dashboard:
        assert dashboard.log_in().status_code == 200
        dashboard.wait_for_sample()
        streams = dashboard.get("streams", search="s", sort="name", order="rising")["rows"]
        assert [(each["name"]["text"], each["length"], each["lag"], each["pending"]) for each in streams] == [
            (name, 3, 1, 2) for name in _STREAMS
        ]
        assert dashboard.get("groups", search="h")["total"] == len(_STREAMS)
        for name in _STREAMS:
            assert [each["id"] for each in dashboard.get("entries", stream=name)["rows"]] == ["3-0", "2-0", "1-0"]
            assert dashboard.get("pending", stream=name, group="h")["total"] == 2
            dashboard.change("claim", stream=name, group="h", to="d", all=True)
            dashboard.change("ack", stream=name, group="h", ids=["1-0"])
            dashboard.change("seek", stream=name, group="h", to="end")
            group = dashboard.get("group", stream=name, group="h")
            assert (group["lag"], group["pending"]) == (0, 1)


def test_on_a_cluster(cluster: topologies.Cluster, tmp_path: Path) -> None:
    """The verbs find streams on all masters, and each server's metrics have its name. A dead master is named."""
    cli = Cli(cluster.url, tmp_path)
    with cluster.client() as client:
        _walk(cli, tmp_path, lambda name: int(client.xlen(name)))
        client.flushall()
        _seen(Wanted(cluster.url), client)
    found = parsed(cli("metrics", "--once").encode())
    nodes = {f"{node.host}:{node.port}" for node in cluster.nodes}
    assert {dict(labels)["node"] for name, labels in found if name == "redis_up"} == nodes
    assert all(value(found, "redis_memory_used_bytes", node=node) for node in nodes)
    dead = cluster.nodes[2]
    servers.stop(dead.process)
    failure = cli.failure("ls", "none", status=5)
    assert "[SERVER_UNREACHABLE]" in failure
    assert f"127.0.0.1:{dead.port}" in failure
    states = {each["node"]: each["state"] for each in cli.json("server", "replication")["servers"]}
    assert states == {node: "unreachable" if node.endswith(f":{dead.port}") else "online" for node in nodes}
