"""The verbs on a cluster, behind a Sentinel, and with TLS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from pystreams.connect import Wanted
from tests import servers
from tests.pystreams.conftest import Cli
from tests.pystreams.dashboard.conftest import dashboard_of
from tests.pystreams.metrics.exposed import parsed, value
from tests.servers import topologies

_STREAMS = [f"s{number}" for number in range(1, 8)]  # these names are spread over all three masters of the cluster


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[servers.Running, str]]:
    """A master, and a URL that finds it through a Sentinel."""
    with ExitStack() as stack:
        master = stack.enter_context(servers.redis())
        sentinel = stack.enter_context(servers.sentinel(f"sentinel monitor main {master.host} {master.port} 1"))
        yield master, f"redis+sentinel://127.0.0.1:{sentinel.port}/main"


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
    positions = tmp_path / "positions.csv"
    positions.write_text(cli("groups", "ls", "s*", "-o", "csv"))
    moved = cli.json("groups", "seek", "s*", "--all-groups", "--to", "start", "--yes")
    assert {each["to"] for each in moved["groups"]} == {"0-0"}
    assert cli.json("groups", "seek", "--from-file", str(positions), "--yes")["moved"] == moved["moved"]
    assert (
        cli("groups", "ls", "s*", "-o", "csv").splitlines()[1].split(",")[:3]
        == positions.read_text().splitlines()[1].split(",")[:3]
    )
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
            file = dashboard.web.get("/api/export", params={"stream": name, "format": "jsonl"})
            assert [json.loads(line)["id"] for line in file.text.splitlines()] == ["1-0", "2-0", "3-0"]
            dashboard.change("claim", stream=name, group="h", to="d", all=True)
            dashboard.change("ack", stream=name, group="h", ids=["1-0"])
            dashboard.change("seek", stream=name, group="h", to="end")
            group = dashboard.get("group", stream=name, group="h")
            assert (group["lag"], group["pending"]) == (0, 1)
        server = dashboard.get("server")
        assert (server["facts"]["role"], server["refusals"] is None) == ("master", False)


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
    assert sum(value(found, "redis_db_keys", db="db0", node=node) or 0 for node in nodes) == len(_STREAMS)
    dead = cluster.nodes[2]
    servers.stop(dead.process)
    failure = cli.failure("ls", "none", status=5)
    assert "[SERVER_UNREACHABLE]" in failure
    assert f"127.0.0.1:{dead.port}" in failure
    states = {each["node"]: each["state"] for each in cli.json("server", "replication")["servers"]}
    assert states == {node: "unreachable" if node.endswith(f":{dead.port}") else "online" for node in nodes}


def test_behind_a_sentinel(watched: tuple[servers.Running, str], tmp_path: Path) -> None:
    """The verbs find the master through the Sentinel, and metrics have no node label."""
    master, url = watched
    with redis.Redis(port=master.port, protocol=2) as client:
        _walk(Cli(url, tmp_path), tmp_path, lambda name: int(client.xlen(name)))
        client.flushall()
        _seen(Wanted(url), client)
    found = parsed(Cli(url, tmp_path)("metrics", "--once").encode())
    assert value(found, "redis_up") == 1


def test_with_tls(tmp_path: Path) -> None:
    """The command line, the dashboard and metrics work with certificates on both sides."""
    with topologies.encrypted() as server, server.client() as client:
        given = dict(server.options)
        url = given.pop("url")
        directory = tmp_path / "pystreams"
        directory.mkdir(mode=0o700)
        lines = [f'"{name}" = "{value}"\n' for name, value in server.options.items()]
        (directory / "profiles.toml").write_text('default = "tls"\n[tls]\n' + "".join(lines))
        cli = Cli("", tmp_path)
        cli.environment["PYSTREAMS_URL"] = None
        _walk(cli, tmp_path, lambda name: int(client.xlen(name)))
        client.flushall()
        _seen(Wanted(url, None, given), client)
