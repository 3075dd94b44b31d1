"""Routing: the server of a key. That is the URL's server, the master that Sentinels name, or a cluster's node.

Owns the known slots of a cluster, the endpoint of the master that Sentinels name, and the search for both. Each search
opens its own links and closes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from streamclient.commands import Command
from streamclient.config.address import Address, Endpoint, Login
from streamclient.errors import BROKEN, ResponseError
from streamclient.link import Link
from streamclient.refusals import refused
from streamwire.slots import COUNT, slot_of


class NoServerError(Exception):
    """No server is known to have the key, or to be the master."""


#: Exceptions of an attempt to reach the server of a key.
UNREACHABLE = (*BROKEN, NoServerError)


class Topology:
    """Locations of an address's keys. Its methods raise `UNREACHABLE`, and ServerError for permanent failures."""

    def __init__(self, address: Address) -> None:
        self.address = address
        #: Whether keys are spread over several nodes.
        self.is_cluster = address.kind == "cluster"
        self._ranges: list[tuple[int, int, Endpoint]] | None = None
        self._owners: list[Endpoint | None] = []  # owner of each slot, if the ranges are known
        self._nodes: list[Endpoint] = []
        self._followers: dict[Endpoint, list[Endpoint]] = {}  # the replicas of a cluster's masters
        self._master: Endpoint | None = None

    def endpoint(self, key: bytes | None) -> Endpoint:
        """Return the server that has the key; any server if `key` is None."""
        if self.is_cluster:
            ranges = self._slots()
            if key is None:
                return ranges[0][2]
            slot = slot_of(key)
            owner = self._owners[slot]
            if owner is None:
                raise NoServerError(f"no node serves the slot {slot}")
            return owner
        if self._master is None:
            self._master = self._find_master()
        return self._master

    def masters(self) -> list[Endpoint]:
        """Return every server that has keys."""
        if not self.is_cluster:
            return [self.endpoint(None)]
        return list(dict.fromkeys(endpoint for _, _, endpoint in self._slots()))

    def replicas(self, node: Endpoint | None) -> list[Endpoint]:
        """Return the replicas that are reported as up. `node`: their master in a cluster; None for a single server."""
        address = self.address
        if self.is_cluster:
            self._slots()
            return [] if node is None else self._followers.get(node, [])
        if address.kind == "sentinel":
            question = ("SENTINEL", "REPLICAS", address.service)
            ((_, reply),) = self._first_answer(address.endpoints, address.sentinel_login, question)
            replicas = [dict(zip(words[::2], words[1::2], strict=True)) for words in reply]
            down = (b"s_down", b"o_down", b"disconnected")
            up = [replica for replica in replicas if not set(replica[b"flags"].split(b",")).intersection(down)]
            return [Endpoint(replica[b"ip"].decode(), int(replica[b"port"])) for replica in up]
        ((_, role),) = self._first_answer([self.endpoint(None)], address.login, ("ROLE",))
        return [Endpoint(host.decode(), int(port)) for host, port, _ in role[2]] if role[0] == b"master" else []

    def invalidate(self) -> None:
        """Drop the known locations, which may be wrong, so that they are requested again on demand."""
        self._ranges = None
        self._master = None

    def learn_moved(self, refusal: str) -> None:
        """Record a redirection `MOVED slot host:port`. All slots are requested again, since more than one may have
        moved.

        Many keys may be refused at once, so nothing is requested if the slot is already known to be at that node.
        """
        _, slot, endpoint = refusal.split()[:3]
        number = int(slot)
        target = None if endpoint.startswith("?:") else self._endpoint_of(endpoint, number)
        known = self._ranges
        if known is not None and self._owners[number] == target is not None:
            return
        self._ranges = None
        with suppress(*UNREACHABLE):
            known = self._slots()
        moved = [] if target is None else [(number, number, target)]
        self._learn([*moved, *(known or [])])

    def is_announced(self, text: str) -> bool:
        """Return whether a text contains a node's address that the cluster announces, and that is not in the URL."""
        return any(str(node) in text for node in self._nodes if node not in self.address.endpoints)

    def ask_target(self, refusal: str) -> Endpoint:
        """Return the node that `ASK slot host:port` names."""
        _, slot, endpoint = refusal.split()[:3]
        return self._endpoint_of(endpoint, int(slot))

    def _endpoint_of(self, text: str, slot: int) -> Endpoint:
        """Return the `host:port` of a redirection.

        An empty host means the host of the server that sent the redirection, which is the slot's previous owner.
        """
        host, _, port = text.rpartition(":")
        owner = (self._owners[slot] if self._owners else None) or self.address.endpoints[0]
        return Endpoint(host or owner.host, int(port))

    def _slots(self) -> list[tuple[int, int, Endpoint]]:
        if self._ranges is None:
            ranges = self._ask_slots([*self._nodes, *self.address.endpoints])
            self._learn(ranges)
            self._nodes = [endpoint for _, _, endpoint in ranges]
            return ranges
        return self._ranges

    def _learn(self, ranges: list[tuple[int, int, Endpoint]]) -> None:
        """Record the nodes of these slots. If ranges overlap, the first one counts."""
        owners: list[Endpoint | None] = [None] * COUNT
        for first, last, endpoint in reversed(ranges):
            owners[first : last + 1] = [endpoint] * (last + 1 - first)
        self._ranges, self._owners = ranges, owners

    def _ask_slots(self, endpoints: Sequence[Endpoint]) -> list[tuple[int, int, Endpoint]]:
        for endpoint, reply in self._first_answer(endpoints, self.address.login, ("CLUSTER", "SLOTS")):
            ranges: list[tuple[int, int, Endpoint]] = []
            self._followers = {}
            for first, last, *nodes in reply:
                master, *others = [_endpoint_in(node, endpoint) for node in nodes]
                ranges.append((int(first), int(last), master))
                self._followers[master] = others
            if ranges:
                return ranges
        raise NoServerError("no node reports served slots")

    def _find_master(self) -> Endpoint:
        address = self.address
        if address.kind == "single":
            return address.endpoints[0]
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", address.service)
        for _, reply in self._first_answer(address.endpoints, address.sentinel_login, question):
            if reply:
                found = Endpoint(reply[0].decode(), int(reply[1]))
                # A Sentinel may not have noticed a failover yet: the server itself must confirm that it is a master.
                for _, role in self._first_answer([found], address.login, ("ROLE",)):
                    if role[0] == b"master":
                        return found
        raise NoServerError(f"no Sentinel names a server that is a master for the service {address.service!r}")

    def _first_answer(
        self, endpoints: Sequence[Endpoint], login: Login, question: Command
    ) -> list[tuple[Endpoint, Any]]:
        """Ask each endpoint until one answers. Return a list with one pair: that endpoint and its answer.

        If none answers, raise the last failure. After a permanent refusal, this is an error that no retry can avoid,
        such as NOT_A_CLUSTER.
        """
        failure: BaseException | None = None
        for endpoint in dict.fromkeys(endpoints):
            try:
                link = Link(endpoint, login)
            except BROKEN as cause:
                failure = cause
                continue
            try:
                (reply,) = link.pipeline([question])
            except BROKEN as cause:
                failure = cause
                continue
            finally:
                link.close()
            if isinstance(reply, ResponseError):
                problem = refused(self.address, question[0], reply)
                failure = NoServerError(str(reply)) if problem.condition == "SERVER_REFUSED" else problem
                continue
            return [(endpoint, reply)]
        raise failure if failure is not None else NoServerError("no server to ask")


def _endpoint_in(node: Sequence[Any], requested: Endpoint) -> Endpoint:
    """Return the endpoint of a node in the reply of CLUSTER SLOTS.

    Without a host, the node is on the host that replied. If the cluster prefers host names and the node has none, the
    host is `?`, and the IP address is in the elements after the port.
    """
    host, port, *more = node
    name = (host or b"").decode()
    if name == "?":
        metadata = more[1] if len(more) > 1 else []
        name = dict(zip(metadata[::2], metadata[1::2], strict=False)).get(b"ip", b"").decode()
    return Endpoint(name or requested.host, int(port))
