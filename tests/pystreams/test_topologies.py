"""The verbs on a cluster, and on a master behind a Sentinel: each does what it does on one server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests import servers, topologies
from tests.pystreams.conftest import Cli
from tests.pystreams.metrics.exposed import parsed, value

_STREAMS = [f"s{number}" for number in range(1, 8)]  # which lie on all three masters of the cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[topologies.Cluster]:
    """Three masters."""
    with topologies.cluster() as made:
        yield made


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[servers.Running, str]]:
    """A master, and the URL by which a Sentinel tells it."""
    with ExitStack() as stack:
        master = stack.enter_context(servers.redis())
        sentinel = stack.enter_context(servers.sentinel(f"sentinel monitor main {master.host} {master.port} 1"))
        yield master, f"redis+sentinel://127.0.0.1:{sentinel.port}/main"


def _walk(cli: Cli, tmp_path: Path, get: Callable[[str], int]) -> None:
    """One verb after the other, on seven streams."""
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
    found = parsed(cli("metrics", "--once").encode())
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
    assert {each["verdict"] for each in json.loads(cli.result("doctor", "--json").stdout)["findings"]} <= {
        "ok",
        "note",
        "warning",
    }


def test_on_a_cluster(cluster: topologies.Cluster, tmp_path: Path) -> None:
    """Streams are found on all masters; each server's own metrics bear its name."""
    cli = Cli(cluster.url, tmp_path)
    with cluster.client() as client:
        _walk(cli, tmp_path, lambda name: int(client.xlen(name)))
    found = parsed(cli("metrics", "--once").encode())
    nodes = {f"{node.host}:{node.port}" for node in cluster.nodes}
    assert {dict(labels)["node"] for name, labels in found if name == "redis_up"} == nodes
    assert sum(value(found, "redis_db_keys", db="db0", node=node) or 0 for node in nodes) == len(_STREAMS) + 2


def test_behind_a_sentinel(watched: tuple[servers.Running, str], tmp_path: Path) -> None:
    """The master is asked for, and no node is named."""
    master, url = watched
    with redis.Redis(port=master.port, protocol=2) as client:
        _walk(Cli(url, tmp_path), tmp_path, lambda name: int(client.xlen(name)))
    found = parsed(Cli(url, tmp_path)("metrics", "--once").encode())
    assert value(found, "redis_up") == 1
