"""Replicas: which servers have copies of a node's keys, and in which availability zone a server is.

What is found is kept for some seconds, for all tasks of this process. Asks with connections of its own. Whether a
replica has what is to be read from it, its reader must ask.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace

from spark_streams.client.connection import Connection
from spark_streams.client.routing import UNREACHABLE
from spark_streams.config.address import Address, Endpoint
from spark_streams.errors import PystreamsError, fail

_KEPT_SECONDS = 10.0
_found: dict[tuple[Address, Endpoint | None], tuple[float, Sequence[Address]]] = {}
_zones: dict[Endpoint, tuple[float, str]] = {}


def of_node(connection: Connection, node: Endpoint | None) -> Sequence[Address]:
    """The replicas of a cluster's node (None: of the one server), in any order.

    Raises NO_REPLICAS_TOLD where nobody says which there are.
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
    return random.sample(found, len(found))


def _address_of(address: Address, endpoint: Endpoint) -> Address:
    """A replica as a server by itself, with the same login. It is tried once: there is always the primary."""
    login = address.login
    scheme = "rediss" if address.encrypted else "redis"
    credentials = replace(address.credentials, username=login.username, password=login.password)
    url = f"{scheme}://{endpoint}/{login.database}"
    return replace(address, url=url, credentials=credentials, retry_ms=0, says_readonly=address.kind == "cluster")


def zone_of(connection: Connection) -> str:
    """The availability zone that a server says it is in (Valkey, ElastiCache); empty if it says none."""
    endpoint, now = connection.topology.endpoint(None), time.monotonic()
    until, zone = _zones.get(endpoint, (0.0, ""))
    if now < until:
        return zone
    (reply,) = connection.pipeline([("INFO", "server")])
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else ""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    zone = lines.get("availability_zone", "").strip()
    _zones[endpoint] = now + _KEPT_SECONDS, zone
    return zone
