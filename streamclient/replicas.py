"""Replicas: the servers with copies of a node's keys, the replication offset of each, and its availability zone.

All tasks of a process share the list of replicas, which is cached for ten seconds. A replica whose reply timed out is
excluded from the list for a minute. Each task requests the replication offset again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamclient.config.address import Address, Endpoint
from streamclient.connection import Connection
from streamclient.errors import PystreamsError, ResponseError, fail
from streamclient.refusals import refused
from streamclient.reply_maps import info_lines
from streamclient.routing import UNREACHABLE

_log = logging.getLogger("spark_streams")
_CACHE_SECONDS = 10.0  # time for which replicas and zones are cached
#: Timeout of a replica's reply in seconds. After it, the primary is read instead.
_ANSWER_SECONDS = 5.0
#: Seconds for which a replica that timed out is not read; much longer than the timeout.
_SILENT_SECONDS = 60.0
_QUESTION = ("INFO", "replication")
_found: dict[tuple[Address, Endpoint | None], tuple[float, Sequence[Address]]] = {}
_zones: dict[Endpoint, tuple[float, str]] = {}
_silent: dict[Address, float] = {}
#: Servers without an offset that this process has already warned about.
_warned: set[Endpoint] = set()


@dataclass(frozen=True)
class Mark:
    """Replication state of a server: its replication ID, which names a history of writes, and the offset in bytes.

    Another server with the same history and at least this offset has all entries of this server. Stream IDs would not
    prove that: a replica may still have a deleted stream with larger IDs than those of its recreated successor.
    """

    history: str
    offset: int


def marks(connection: Connection, nodes: Iterable[Endpoint | None]) -> tuple[tuple[Endpoint | None, Mark], ...]:
    """Return these nodes of a cluster, each with its current mark. The node None is a single server.

    A node that reports no offset is omitted, with one warning per process in the log. An unreachable node is omitted,
    too. Raises NO_REPLICAS_TOLD if a node refuses INFO.
    """
    found: list[tuple[Endpoint | None, Mark]] = []
    for node in nodes:
        try:
            link = connection.link(None) if node is None else connection.link_to(node)
            (reply,) = link.pipeline([_QUESTION])
        except UNREACHABLE:
            continue
        if isinstance(reply, ResponseError):
            fail("NO_REPLICAS_TOLD", address=connection.address, reason=refused(connection.address, "INFO", reply))
        lines = info_lines(reply)
        mark = _mark(lines)
        if mark is None:
            _warn(link.endpoint, lines, "This server is read instead of its replicas.")
        else:
            found.append((node, mark))
    return tuple(found)


def has_reached(replica: Connection, mark: Mark) -> bool:
    """Return whether the replica, which may have been promoted to master, has all writes up to the mark.

    If it reports no offset, return False and log a warning once per process.
    """
    (reply,) = replica.pipeline([_QUESTION])
    lines = info_lines(reply)
    now = _mark(lines)
    if now is None:
        _warn(replica.topology.endpoint(None), lines, "The primary is read instead of this replica.", reply)
        return False
    before = lines.get("second_repl_offset", "")  # the second ID names the history up to this offset
    continued = lines.get("master_replid2") == mark.history and before.isdigit() and mark.offset < int(before)
    return (now.history == mark.history or continued) and now.offset >= mark.offset


def _mark(lines: Mapping[str, str]) -> Mark | None:
    """Return the mark in these lines of INFO; None if they do not contain it."""
    history, offset = lines.get("master_replid"), lines.get(_offset_line(lines), "")
    return Mark(history, int(offset)) if history and offset.isdigit() else None


def _offset_line(lines: Mapping[str, str]) -> str:
    return "master_repl_offset" if lines.get("role") == "master" else "slave_repl_offset"


def _warn(server: Endpoint, lines: Mapping[str, str], consequence: str, reply: Any = None) -> None:
    if server in _warned:
        return
    _warned.add(server)
    wanted = ("role", "master_replid", _offset_line(lines)) if "role" in lines else ("role", "master_replid")
    missing = [name for name in wanted if not lines.get(name)]
    reason = f" ({reply})" if isinstance(reply, ResponseError) else ""
    _log.warning(
        "readFrom: %s does not report its replication offset: INFO replication has no %s%s. %s",
        server,
        " and no ".join(missing) or "usable offset",
        reason,
        consequence,
    )


def forget() -> None:
    """Drop everything that this process has cached about replicas."""
    for cached in (_found, _zones, _silent):
        cached.clear()
    _warned.clear()


def exclude(replica: Address) -> None:
    """Exclude a replica, which does not reply, from the results of `of_node` for a minute."""
    _silent[replica] = time.monotonic() + _SILENT_SECONDS


def of_node(connection: Connection, node: Endpoint | None) -> Sequence[Address]:
    """Return the replicas that are not excluded, in random order.

    `node`: their master in a cluster; None for a single server.

    Raises NO_REPLICAS_TOLD if no server lists the replicas, and SERVER_UNREACHABLE.
    """
    address, now = connection.address, time.monotonic()
    until, found = _found.get((address, node), (0.0, ()))
    if now >= until:
        try:
            endpoints = connection.topology.replicas(node)
        except UNREACHABLE as cause:
            raise connection.unreachable(cause) from cause
        except PystreamsError as refusal:
            fail("NO_REPLICAS_TOLD", address=address, reason=refusal)
        found = [_address_of(address, endpoint) for endpoint in endpoints]
        _found[address, node] = now + _CACHE_SECONDS, found
    answering = [each for each in found if now >= _silent.get(each, 0.0)]
    return random.sample(answering, len(answering))


def _address_of(address: Address, endpoint: Endpoint) -> Address:
    """Return a replica's own address, with the same login.

    It has no retry time and a short reply timeout, since the primary can be read instead.
    """
    login = address.login
    scheme = "rediss" if address.encrypted else "redis"
    credentials = replace(address.credentials, username=login.username, password=login.password)
    url = f"{scheme}://{endpoint}/{login.database}"
    seconds = _ANSWER_SECONDS if address.answer_seconds is None else min(_ANSWER_SECONDS, address.answer_seconds)
    return replace(
        address,
        url=url,
        credentials=credentials,
        retry_ms=0,
        answer_seconds=seconds,
        sends_readonly=address.kind == "cluster",
    )


def zone_of(connection: Connection) -> str:
    """Return the availability zone that a server reports (Valkey, ElastiCache); empty if it reports none."""
    endpoint, now = connection.topology.endpoint(None), time.monotonic()
    until, zone = _zones.get(endpoint, (0.0, ""))
    if now < until:
        return zone
    zone = info_lines(connection.pipeline([("INFO", "server")])[0]).get("availability_zone", "").strip()
    _zones[endpoint] = now + _CACHE_SECONDS, zone
    return zone
