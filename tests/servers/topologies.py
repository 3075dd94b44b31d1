"""Real servers in other forms than a single port: a cluster, a master with replica and Sentinels, TLS.

Each context manager leaves nothing behind.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from tests import servers
from tests.servers.certificates import authority, certificate
from tests.suite import tools
from tests.suite.waiting import wait_for


@dataclass
class Cluster:
    """A cluster of three masters that share the slots, and their replicas."""

    nodes: list[servers.Running]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes[:2])

    def client(self) -> redis.RedisCluster:
        return redis.RedisCluster(host=self.nodes[0].host, port=self.nodes[0].port, protocol=2)

    def cli(self, node: servers.Running, *words: str) -> str:
        command = [tools.needed("redis-cli"), "-h", node.host, "-p", str(node.port), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def owner(self, slot: int) -> servers.Running:
        """Return the node that serves the slot."""
        with redis.Redis(host=self.nodes[0].host, port=self.nodes[0].port, protocol=2) as client:
            for first, last, held, *_ in client.execute_command("CLUSTER", "SLOTS"):
                if first <= slot <= last:
                    return next(node for node in self.nodes if node.port == held[1])
        raise LookupError(slot)

    def masters(self) -> list[servers.Running]:
        """Return the nodes that serve slots, as reported by any node that replies."""
        for node in self.nodes:
            if node.process.poll() is None:
                with redis.Redis(host=node.host, port=node.port, protocol=2) as client:
                    ports = {held[1] for _, _, held, *_ in client.execute_command("CLUSTER", "SLOTS")}
                return [each for each in self.nodes if each.port in ports]
        raise LookupError("no node is left")

    def begin_move(self, slot: int) -> tuple[servers.Running, servers.Running]:
        """Start the migration of a slot to another node, and return the old and the new node.

        Keys that the old node lacks must be requested from the new node.
        """
        source = self.owner(slot)
        target = next(node for node in self.masters() if node is not source)
        source_id, target_id = self.cli(source, "cluster", "myid"), self.cli(target, "cluster", "myid")
        self.cli(target, "cluster", "setslot", str(slot), "importing", source_id)
        self.cli(source, "cluster", "setslot", str(slot), "migrating", target_id)
        return source, target

    def move_keys(self, slot: int, source: servers.Running, target: servers.Running, count: int = 1000) -> int:
        """Move up to this many keys; return their number."""
        keys = self.cli(source, "cluster", "getkeysinslot", str(slot), str(count)).splitlines()
        for key in keys:
            self.cli(source, "migrate", target.host, str(target.port), key, "0", "5000")
        return len(keys)

    def end_move(self, slot: int, source: servers.Running, target: servers.Running) -> None:
        """Move all remaining keys of the slot, and announce the change to all nodes."""
        while self.move_keys(slot, source, target):
            pass
        name = self.cli(target, "cluster", "myid")
        for node in (target, source, *self.nodes):
            self.cli(node, "cluster", "setslot", str(slot), "node", name)


@contextmanager
def cluster(replicas: int = 0) -> Iterator[Cluster]:
    """Yield a cluster of three masters with this number of replicas each."""
    with ExitStack() as stack:
        flags = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
        nodes = [
            # Without an explicit port the bus would be 10,000 ports higher, which may not exist.
            stack.enter_context(servers.redis(*flags, "--cluster-port", str(servers.free_port())))
            for _ in range(3 * (1 + replicas))
        ]
        addresses = [f"{node.host}:{node.port}" for node in nodes]
        create = [tools.needed("redis-cli"), "--cluster", "create", *addresses, "--cluster-yes"]
        create += ["--cluster-replicas", str(replicas)]
        subprocess.run(create, capture_output=True, check=True, timeout=60)
        for node in nodes:
            with redis.Redis(host=node.host, port=node.port, protocol=2) as client:
                wait_until_whole(client)
                wait_for(lambda: _link_is_up(client), "the replicas to follow", 30)
        yield Cluster(nodes)


def _link_is_up(client: redis.Redis) -> bool:
    """Return whether the node is a master, or a replica that follows."""
    info = client.info("replication")
    return info["role"] == "master" or info["master_link_status"] == "up"


def wait_until_whole(client: redis.Redis) -> None:
    """Wait until the client's node reports that all slots of its cluster are served."""

    def is_whole() -> bool:
        info = client.execute_command("CLUSTER", "INFO")  # Bytes, or the dict that redis-py returns.
        return b"cluster_state:ok" in info if isinstance(info, bytes) else info["cluster_state"] == "ok"

    wait_for(is_whole, "the cluster to be whole")


@dataclass
class Watched:
    """A master, its replicas, and three Sentinels that watch them."""

    master: servers.Running
    replicas: list[servers.Running]
    sentinels: list[int]

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in self.sentinels) + "/main"

    def now_master(self) -> int:
        """Return the port of the master that a Sentinel reports."""
        with redis.Redis(port=self.sentinels[0], protocol=2) as sentinel:
            return int(sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1])

    def client(self) -> redis.Redis:
        """Return a client of the current master, which does not follow a failover."""
        return redis.Redis(port=self.now_master(), protocol=2, socket_timeout=5)

    def server_at(self, port: int) -> servers.Running:
        return next(each for each in (self.master, *self.replicas) if each.port == port)

    def failover(self) -> None:
        """Promote a replica, and make the old master its replica."""
        before = self.now_master()
        with redis.Redis(port=self.sentinels[0], protocol=2) as sentinel:
            wait_for(lambda: _asked_to_fail_over(sentinel), "a Sentinel to start the failover")
        wait_for(lambda: self.now_master() != before, "the failover", 40)
        with redis.Redis(port=before, protocol=2) as old:
            wait_for(lambda: old.execute_command("ROLE")[0] == b"slave", "the old master to become a replica", 40)


def _asked_to_fail_over(sentinel: redis.Redis) -> bool:
    try:
        sentinel.execute_command("SENTINEL", "FAILOVER", "main")
    except redis.ResponseError:
        return False
    return True


@contextmanager
def watched(replicas: int = 1) -> Iterator[Watched]:
    """Yield a master with replicas and three Sentinels."""
    with ExitStack() as stack:
        master = stack.enter_context(servers.redis("--repl-diskless-sync-delay", "0"))
        following = [
            stack.enter_context(servers.redis("--replicaof", f"{master.host} {master.port}")) for _ in range(replicas)
        ]
        for replica in following:
            with redis.Redis(port=replica.port, protocol=2) as client:
                wait_for(lambda: client.info("replication")["master_link_status"] == "up", "a replica to follow", 30)
        ports = [
            stack.enter_context(
                servers.sentinel(
                    f"sentinel monitor main {master.host} {master.port} 2",
                    "sentinel down-after-milliseconds main 1000",
                    "sentinel failover-timeout main 5000",
                )
            ).port
            for _ in range(3)
        ]
        for port in ports:
            with redis.Redis(port=port, protocol=2) as client:
                wait_for(lambda: _knows(client, replicas), "the Sentinels to know each other and the replicas", 40)
        yield Watched(master, following, ports)


def _knows(sentinel: redis.Redis, replicas: int) -> bool:
    try:
        state = sentinel.execute_command("SENTINEL", "MASTER", "main")
    except (redis.ConnectionError, redis.ResponseError):
        return False
    if not isinstance(state, dict):
        state = dict(zip(state[::2], state[1::2], strict=True))
    named = {(k if isinstance(k, str) else k.decode()): v for k, v in state.items()}
    return int(named["num-other-sentinels"]) == 2 and int(named["num-slaves"]) == replicas


@dataclass
class Encrypted:
    """A server that requires client certificates on its TLS port, and the files that its clients need."""

    port: int
    ca: Path
    certificate: Path
    key: Path
    #: Settings with which another server or a Sentinel uses TLS in the same way.
    flags: tuple[str, ...]

    @property
    def url(self) -> str:
        return f"rediss://localhost:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Return the connector's options for the server."""
        files = {"tls.caFile": self.ca, "tls.certFile": self.certificate, "tls.keyFile": self.key}
        return {"url": self.url, **{name: str(path) for name, path in files.items()}}

    def client(self, port: int | None = None) -> redis.Redis:
        return redis.Redis(
            host="localhost",
            port=port or self.port,
            protocol=2,
            ssl=True,
            ssl_ca_certs=str(self.ca),
            ssl_certfile=str(self.certificate),
            ssl_keyfile=str(self.key),
        )


@contextmanager
def encrypted(*more: str) -> Iterator[Encrypted]:
    """Yield a server with TLS and client certificates; ``more`` are flags."""
    with tempfile.TemporaryDirectory(prefix="ps-tls-") as name:
        directory = Path(name)
        ca = authority(directory, "ca")
        server, client = (certificate(directory, side, ca) for side in ("server", "client"))
        port = servers.free_port()
        files = {"cert": server.certificate, "key": server.key, "ca-cert": ca.certificate}
        flags = tuple(word for name, path in files.items() for word in (f"--tls-{name}-file", str(path)))
        flags += ("--tls-replication", "yes")
        with servers.redis("--tls-port", str(port), *flags, *more):
            yield Encrypted(port, ca.certificate, client.certificate, client.key, flags)
