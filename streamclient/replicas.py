"""Replicas: which servers have copies of a node's keys, how far each copy is, and in which availability zone it is.

What is found is kept for some seconds, for all tasks of this process: which replicas there are, and which of them did
not answer. Each task asks again how far a copy is.
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
from streamclient.errors import PystreamsError, fail
from streamclient.refusals import refused
from streamclient.routing import UNREACHABLE
from streamclient.wire_errors import ResponseError

_log = logging.getLogger("spark_streams")
_KEPT_SECONDS = 10.0
#: How long a replica may be silent before the primary is read instead.
_ANSWER_SECONDS = 5.0
#: How long a replica that did not answer is not asked again: much longer than finding that out takes.
_SILENT_SECONDS = 60.0
_QUESTION = ("INFO", "replication")
_found: dict[tuple[Address, Endpoint | None], tuple[float, Sequence[Address]]] = {}
_zones: dict[Endpoint, tuple[float, str]] = {}
_silent: dict[Address, float] = {}
#: Servers already reported by this process as not saying how far they are.
_untold: set[Endpoint] = set()


@dataclass(frozen=True)
class Mark:
    """How far a server was: its replication ID, which names a history of writes, and the offset in it, in bytes.

    A server of the same history that has come as far has everything that this one had. Stream IDs would not tell: a
    stream that was deleted and made anew may have smaller ones than the old one, which a replica still has.
    """

    history: str
    offset: int


def marks(connection: Connection, nodes: Iterable[Endpoint | None]) -> tuple[tuple[Endpoint | None, Mark], ...]:
    """Return how far these nodes of a cluster are now (None: the one server). A node that says nothing of it is left
    out.

    That is a warning in the log, once in a process. Raises NO_REPLICAS_TOLD where the user may not ask.
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
        lines = _lines(reply)
        mark = _mark(lines)
        if mark is None:
            _warn(link.endpoint, lines, "So its replicas are not read, but this server itself.")
        else:
            found.append((node, mark))
    return tuple(found)


def has_reached(replica: Connection, mark: Mark) -> bool:
    """Return whether that server has everything that was there at the mark; so does one that has been promoted since.

    If it does not say, it has not; that is a warning in the log, once in a process.
    """
    (reply,) = replica.pipeline([_QUESTION])
    lines = _lines(reply)
    now = _mark(lines)
    if now is None:
        _warn(replica.topology.endpoint(None), lines, "So this replica is not read, but the primary.", reply)
        return False
    before = lines.get("second_repl_offset", "")  # up to there the history was that of the second ID
    continued = lines.get("master_replid2") == mark.history and before.isdigit() and mark.offset < int(before)
    return (now.history == mark.history or continued) and now.offset >= mark.offset


def _mark(lines: Mapping[str, str]) -> Mark | None:
    """Return how far a server is that has these lines in its INFO; None if they do not say."""
    history, offset = lines.get("master_replid"), lines.get(_offset_line(lines), "")
    return Mark(history, int(offset)) if history and offset.isdigit() else None


def _offset_line(lines: Mapping[str, str]) -> str:
    return "master_repl_offset" if lines.get("role") == "master" else "slave_repl_offset"


def _warn(server: Endpoint, lines: Mapping[str, str], consequence: str, reply: Any = None) -> None:
    if server in _untold:
        return
    _untold.add(server)
    wanted = ("role", "master_replid", _offset_line(lines)) if "role" in lines else ("role", "master_replid")
    missing = [name for name in wanted if not lines.get(name)]
    reason = f" ({reply})" if isinstance(reply, ResponseError) else ""
    _log.warning(
        "readFrom: %s does not say how far it is: INFO replication has no %s%s. %s",
        server,
        " and no ".join(missing) or "usable offset",
        reason,
        consequence,
    )


def leave_alone(replica: Address) -> None:
    """The replica does not answer: for a minute `of_node` does not name it."""
    _silent[replica] = time.monotonic() + _SILENT_SECONDS


def of_node(connection: Connection, node: Endpoint | None) -> Sequence[Address]:
    """Return the replicas of a cluster's node (None: of the one server), in any order.

    Raises NO_REPLICAS_TOLD if no server lists its replicas.
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
        _found[address, node] = now + _KEPT_SECONDS, found
    answering = [each for each in found if now >= _silent.get(each, 0.0)]
    return random.sample(answering, len(answering))


def _address_of(address: Address, endpoint: Endpoint) -> Address:
    """Return a replica as a server by itself, with the same login. It is tried once, briefly: there is always the
    primary.
    """
    login = address.login
    scheme = "rediss" if address.encrypted else "redis"
    credentials = replace(address.credentials, username=login.username, password=login.password)
    url = f"{scheme}://{endpoint}/{login.database}"
    patience = _ANSWER_SECONDS if address.answer_seconds is None else min(_ANSWER_SECONDS, address.answer_seconds)
    return replace(
        address,
        url=url,
        credentials=credentials,
        retry_ms=0,
        answer_seconds=patience,
        says_readonly=address.kind == "cluster",
    )


def zone_of(connection: Connection) -> str:
    """Return the availability zone that a server says it is in (Valkey, ElastiCache); empty if it says none."""
    endpoint, now = connection.topology.endpoint(None), time.monotonic()
    until, zone = _zones.get(endpoint, (0.0, ""))
    if now < until:
        return zone
    zone = _lines(connection.pipeline([("INFO", "server")])[0]).get("availability_zone", "").strip()
    _zones[endpoint] = now + _KEPT_SECONDS, zone
    return zone


def _lines(reply: Any) -> Mapping[str, str]:
    """Return the lines of INFO; none if that was refused."""
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else ""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
