"""The servers of an address, their replication, and planned failover."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pystreams.errors import fail
from pystreams.streams.paged_calls import ask_server, failure, number
from streamclient.config.address import Endpoint
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError, ResponseError
from streamclient.link import Link
from streamclient.reply_maps import info_lines, line_fields
from streamclient.routing import UNREACHABLE

_POLL_SECONDS = 0.1
_REPLICAS = 100  # maximum number of replicas listed per master


def servers(connection: Connection) -> list[Endpoint]:
    """Return the masters and their replicas."""
    found: list[Endpoint] = []
    for master in connection.topology.masters():
        found.append(master)
        found += connection.topology.replicas(master if connection.topology.is_cluster else None)
    return list(dict.fromkeys(found))


def product(facts: Mapping[str, str]) -> str:
    """Return the product and release of a server. `facts`: lines of INFO."""
    for line, name in (
        ("engine_release", "pystreams engine"),
        ("valkey_version", "Valkey"),
        ("redis_version", "Redis"),
    ):
        if line in facts:
            return f"{name} {facts[line]}"
    return "unknown server"


def ask_one(connection: Connection, node: Endpoint, *command: str | bytes | int) -> Any:
    """Return the reply of one server to a command. Raises an error if the server refuses the command."""
    (reply,) = ask_server(connection, node, [command])
    if isinstance(reply, ResponseError):
        raise failure(connection, command, reply)
    return reply


@dataclass(frozen=True)
class Replica:
    """A server in a replication tree. `behind`: number of bytes that its master has written and the replica has not
    processed.

    `lag`: seconds since the replica and its master last communicated. `behind` and `lag` are None for a master.
    `behind` is also None for a replica that reports only itself.
    """

    node: str
    role: str
    state: str
    offset: int | None
    behind: int | None
    lag: int | None


def replication(connection: Connection) -> list[Replica]:
    """Return each master, followed by the replicas that it reports.

    For a server that is itself a replica, return only the replica and the state of its link. A master that does not
    answer is `unreachable`.
    """
    found: list[Replica] = []
    for node in connection.topology.masters():
        try:
            facts = info_lines(ask_one(connection, node, "INFO", "replication"))
        except BROKEN:
            found.append(Replica(str(node), "master", "unreachable", None, None, None))
            continue
        if facts.get("role") == "slave":
            offset, master = number(facts.get("slave_repl_offset")), f"{facts['master_host']}:{facts['master_port']}"
            state = f"{facts.get('master_link_status', 'unknown')}, of {master}"
            lag = number(facts.get("master_last_io_seconds_ago"))
            found.append(Replica(str(node), "replica", state, offset, None, lag))
            continue
        written = number(facts.get("master_repl_offset"))
        found.append(Replica(str(node), "master", "online", written, None, None))
        for at in range(_REPLICAS):
            line = facts.get(f"slave{at}")
            if line is not None:
                found.append(_replica(line_fields(line, ","), written))
    return found


def _replica(line: dict[str, str], written: int | None) -> Replica:
    offset = number(line.get("offset"))
    behind = None if offset is None or written is None else max(0, written - offset)
    return Replica(f"{line['ip']}:{line['port']}", "replica", line["state"], offset, behind, number(line.get("lag")))


def fail_over(connection: Connection, seconds: float) -> Endpoint:
    """Make a replica the master without losing a write, and return the new master.

    Under Sentinel, writes are paused until every replica has all of the master's data and the former master follows the
    new one, because SENTINEL FAILOVER does not wait for this. Without Sentinel, FAILOVER itself pauses writes until a
    replica has all data and becomes the master. Raises FAILOVER_UNFINISHED if the failover takes longer than `seconds`.
    Under Sentinel, the pause ends after twice that time at the latest.
    """
    address, topology = connection.address, connection.topology
    before = topology.endpoint(None)
    end = time.monotonic() + seconds
    if address.kind != "sentinel":
        ask_one(connection, before, "FAILOVER")
        return _next_master(connection, before, end, seconds)
    ask_one(connection, before, "CLIENT", "PAUSE", round(2 * seconds * 1000), "WRITE")
    try:
        _wait_for_replicas(connection, before, end, seconds)
        _ask_a_sentinel(connection, ("SENTINEL", "FAILOVER", address.service))
    except BaseException:
        _accept_writes(connection, before)
        raise
    after = _next_master(connection, before, end, seconds)
    # The pause also blocks the Sentinels' PUBLISH and thus their REPLICAOF. So they would demote the former master only
    # after the pause, and writes that it accepts in between would be lost.
    ask_one(connection, before, "REPLICAOF", after.host, after.port)
    _accept_writes(connection, before)
    return after


def _accept_writes(connection: Connection, node: Endpoint) -> None:
    with suppress(*BROKEN, PystreamsError):
        ask_one(connection, node, "CLIENT", "UNPAUSE")


def _wait_for_replicas(connection: Connection, master: Endpoint, end: float, seconds: float) -> None:
    """Wait until every connected replica has acknowledged all that the master had written when the wait began."""
    written: int | None = None
    while time.monotonic() < end:
        facts = info_lines(ask_one(connection, master, "INFO", "replication"))
        written = number(facts["master_repl_offset"]) or 0 if written is None else written
        offsets = [
            int(line_fields(line, ",")["offset"]) for name, line in facts.items() if re.fullmatch("slave[0-9]+", name)
        ]
        if offsets and min(offsets) >= written:
            return
        time.sleep(_POLL_SECONDS)
    fail("FAILOVER_UNFINISHED", node=master, seconds=round(seconds))


def _next_master(connection: Connection, before: Endpoint, end: float, seconds: float) -> Endpoint:
    while time.monotonic() < end:
        now = _master(connection, before)
        if now is not None and now != before:
            return now
        time.sleep(_POLL_SECONDS)
    return fail("FAILOVER_UNFINISHED", node=before, seconds=round(seconds))


def _master(connection: Connection, before: Endpoint) -> Endpoint | None:
    """Return the current master; None if it is unknown at the moment."""
    connection.topology.invalidate()
    try:
        if connection.address.kind == "sentinel":
            return connection.topology.endpoint(None)
        facts = info_lines(ask_one(connection, before, "INFO", "replication"))
    except (*UNREACHABLE, PystreamsError):
        return None
    if facts.get("role") == "slave":
        return Endpoint(facts["master_host"], int(facts["master_port"]))
    return None


def _ask_a_sentinel(connection: Connection, command: Command) -> None:
    """Send a command to the first Sentinel that accepts a connection. Raises NO_SENTINEL."""
    address = connection.address
    for endpoint in address.endpoints:
        try:
            link = Link(endpoint, address.sentinel_login)
        except BROKEN:
            continue
        try:
            (reply,) = link.pipeline([command])
        finally:
            link.close()
        if isinstance(reply, ResponseError):
            raise failure(connection, command, reply)
        return
    fail("NO_SENTINEL", address=address.shown)
