"""Sentinels, engines and clients with full security: TLS everywhere, users with minimal rights, passwords."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from streamclient.config.address import Address, Credentials, Tls
from streamclient.connection import Connection as ConnectorConnection
from tests import servers
from tests.servers.certificates import authority, certificate
from tests.servers.sentinels import PATIENCE, QUICK, Member
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.redis
#: Rights of a Sentinel, and of a replica, from Redis's documentation.
_SENTINEL = (
    "allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname"
    " +client|kill +script|kill"
)
_USERS = f"""
user default on >secret ~* &* +@all
user watcher on >watching {_SENTINEL}
user follower on >following +psync +replconf +ping
masteruser follower
masterauth following
"""


class Secured(Member):
    """A server that accepts only TLS connections."""

    def __init__(self, directory: Path, tls: list[str], authority_file: Path) -> None:
        super().__init__("engine", directory)
        self._authority = authority_file
        lines = [f"port 0\ntls-port {self.port}\nbind 127.0.0.1\ndir {directory}", "tls-replication yes", *tls]
        self.config.write_text("\n".join(lines) + _USERS)

    def client(self) -> redis.Redis:
        return redis.Redis(
            port=self.port,
            protocol=2,
            socket_timeout=20,
            password="secret",
            ssl=True,
            ssl_ca_certs=str(self._authority),
        )


@contextmanager
def secured() -> Iterator[tuple[list[Member], list[int], Path]]:
    """Yield a master and its replica, three Sentinels that watch them, and the file of the certificate authority."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ps-secured-")))
        signer = authority(directory, "ca")
        made = certificate(directory, "server", signer, "IP:127.0.0.1,DNS:localhost")
        tls = [
            f"tls-cert-file {made.certificate}",
            f"tls-key-file {made.key}",
            f"tls-ca-cert-file {signer.certificate}",
        ]
        found = [
            Secured(directory / f"{number}", [*tls, "tls-auth-clients no"], signer.certificate) for number in range(2)
        ]
        for member in found:
            stack.callback(member.stop)
            member.launch()
        for member in found:
            member.wait()
        found[1].run("REPLICAOF", "127.0.0.1", found[0].port)
        wait_for(lambda: found[1].follows(found[0]), "the replica to follow")
        watching = (
            *("port 0", "tls-replication yes", "tls-auth-clients no", *tls, "requirepass asking"),
            "sentinel sentinel-pass asking",
            f"sentinel monitor main 127.0.0.1 {found[0].port} 2",
            "sentinel auth-user main watcher",
            "sentinel auth-pass main watching",
            "sentinel down-after-milliseconds main 500",
            "sentinel failover-timeout main 1000",
        )
        ports = []
        for _ in range(3):
            port = stack.enter_context(servers.sentinel(*watching, port_setting="tls-port")).port
            with asked(port, signer.certificate) as client:
                client.execute_command("SENTINEL", "DEBUG", *(word for pair in QUICK.items() for word in pair))
            ports.append(port)
        yield list(found), ports, signer.certificate


def asked(port: int, authority_file: Path) -> redis.Redis:
    """Return a client of a Sentinel."""
    return redis.Redis(
        port=port, protocol=2, socket_timeout=5, password="asking", ssl=True, ssl_ca_certs=str(authority_file)
    )


@long_only
def test_a_master_dies_with_full_security():
    """The Sentinels know the replica and each other, promote it when the master is killed, and the killed server
    follows it.

    redis-py and the connector find the new master with their passwords.
    """
    with secured() as ((first, second), ports, authority_file), ExitStack() as stack:

        def know_all() -> bool:
            for port in ports:
                with asked(port, authority_file) as client:
                    state = client.sentinel_master("main")
                if (int(state["num-other-sentinels"]), int(state["num-slaves"])) != (2, 1):
                    return False
            return True

        wait_for(know_all, "the Sentinels to know all", PATIENCE)
        security: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(authority_file)}
        found = redis.Sentinel(
            [("127.0.0.1", port) for port in ports], sentinel_kwargs={**security, "password": "asking"}, **security
        )
        client = stack.enter_context(found.master_for("main", protocol=2, password="secret", socket_timeout=5))
        url = "rediss+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in ports) + "/main"
        credentials = Credentials(password="secret", sentinel_password="asking", tls=Tls(ca_file=str(authority_file)))
        connection = ConnectorConnection(Address(url, credentials=credentials, retry_ms=20_000))
        stack.callback(connection.close)
        assert client.xadd("s", {"by": "redis-py"}, id="1-1") == b"1-1"
        assert connection.command("XADD", "s", "1-2", "by", "connector") == b"1-2"
        assert first.run("WAIT", 1, 20_000) == 1
        first.kill()
        wait_for(lambda: second.info().get("role") == "master", "the replica to lead", PATIENCE)
        # The client repeats a read by itself, but not an XADD.
        assert connection.command("XLEN", "s") == 2
        assert connection.command("XADD", "s", "2-2", "by", "connector") == b"2-2"
        wait_for(lambda: added(client), "redis-py to find the master", PATIENCE)
        first.start()
        wait_for(lambda: first.has_all_of(second), "the killed one to follow", PATIENCE)
        with first.client() as reader:
            assert [entry for entry, _ in reader.xrange("s")] == [b"1-1", b"1-2", b"2-2", b"3-1"]


def added(client: Any) -> bool:
    try:
        return bool(client.xadd("s", {"by": "redis-py"}, id="3-1"))
    except redis.ResponseError as refusal:
        return "equal or smaller" in str(refusal)
    except (redis.ConnectionError, redis.TimeoutError):
        return False
