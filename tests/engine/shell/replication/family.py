"""Shared helpers for tests of real servers that follow each other."""

from __future__ import annotations

from typing import Any

import redis

from tests.suite.waiting import wait_for


def follow(replica: redis.Redis, port: int, host: str = "127.0.0.1") -> None:
    assert replica.execute_command("REPLICAOF", host, port) == b"OK"


def port_of(client: redis.Redis) -> int:
    return int(client.connection_pool.connection_kwargs["port"])


def replication(client: redis.Redis) -> dict[str, Any]:
    found: dict[str, Any] = client.info("replication")
    return found


def trouble(client: redis.Redis) -> str:
    """Return INFO's error for a replication link that is down."""
    return str(replication(client).get("engine_master_link_error", ""))


def wait_until_up(replica: redis.Redis) -> None:
    wait_for(lambda: replication(replica)["master_link_status"] == "up", "the link to the master")


def wait_until_equal(replica: redis.Redis, master: redis.Redis) -> None:
    """Wait until the replica has applied all commands of the master."""

    def level() -> bool:
        state = replication(replica)
        return (
            state["master_link_status"] == "up"
            and state["slave_repl_offset"] >= replication(master)["master_repl_offset"]
        )

    wait_for(level, "the replica to have the offset of its master")


def contents(client: redis.Redis) -> dict[bytes, object]:
    """Return all keys of the client's database with their content; for a stream, what all servers store."""
    found: dict[bytes, object] = {}
    for key in client.scan_iter(count=1000):
        kind = client.type(key)
        if kind == b"stream":
            found[key] = client.xrange(key), of_stream(client.execute_command("XINFO", "STREAM", key, "FULL"))
        elif kind == b"hash":
            found[key] = client.hgetall(key)
        else:
            found[key] = client.get(key), client.pexpiretime(key)
    return found


def of_stream(full: dict[bytes, Any]) -> object:
    # entries-read is left out because Redis 7.0 does not send it to replicas.
    counters = [full[name] for name in (b"length", b"last-generated-id", b"max-deleted-entry-id", b"entries-added")]
    groups = [
        [group[name] for name in (b"name", b"last-delivered-id", b"pel-count", b"pending")]
        + [sorted((consumer[b"name"], consumer[b"pending"]) for consumer in group[b"consumers"])]
        for group in full[b"groups"]
    ]
    return counters, groups
