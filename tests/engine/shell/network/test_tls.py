"""TLS: clients with and without certificates of a test CA, which is made with the openssl command."""

from __future__ import annotations

import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import hiredis
import pytest
import redis as redis_py

from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.tls import server_context
from tests import servers
from tests.engine.shell.refused_starts import refused
from tests.servers import free_port
from tests.servers.certificates import authority, certificate, openssl
from tests.servers.connection import Connection
from tests.suite.waiting import DEADLINE, wait_for


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with .crt and .key files of ca, other-ca, server, server2 and client; locked.key has password
    pw.
    """
    directory = tmp_path_factory.mktemp("tls")
    ca, _ = (authority(directory, name) for name in ("ca", "other-ca"))
    for name in ("server", "server2", "client"):
        certificate(directory, name, ca, hosts="DNS:localhost,IP:127.0.0.1")
    openssl("pkcs8", "-topk8", "-in", directory / "server.key", "-out", directory / "locked.key", "-passout", "pass:pw")
    return directory


def settings(directory: Path, port: int, *more: str) -> list[str]:
    return [
        "--tls-port",
        str(port),
        "--tls-cert-file",
        str(directory / "server.crt"),
        "--tls-key-file",
        str(directory / "server.key"),
        "--tls-ca-cert-file",
        str(directory / "ca.crt"),
        *more,
    ]


def context(directory: Path, certificate: str = "") -> ssl.SSLContext:
    """Return a client's context, which trusts the test CA."""
    made = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    if certificate:
        made.load_cert_chain(directory / f"{certificate}.crt", directory / f"{certificate}.key")
    return made


def ask(port: int, made: ssl.SSLContext, *words: str) -> object:
    """Run one command over a TLS connection; raise ConnectionError if the server refuses or closes the connection."""
    reader = hiredis.Reader()
    try:
        with (
            socket.create_connection(("127.0.0.1", port), DEADLINE) as raw,
            made.wrap_socket(raw, server_hostname="localhost") as client,
        ):
            client.sendall(hiredis.pack_command(words))
            while (reply := reader.gets()) is False:
                data = client.recv(1 << 16)
                if not data:
                    raise ConnectionError("closed")
                reader.feed(data)
            return reply
    except (ssl.SSLError, ConnectionError) as error:
        raise ConnectionError(str(error)) from None


def test_clients_with_and_without_certificates(certificates: Path) -> None:
    """tls-auth-clients requires a certificate, accepts one or ignores it, and can change at run time."""
    port = free_port()
    with servers.engine(*settings(certificates, port, "--port", str(free_port()))) as engine:
        with_certificate, without = context(certificates, "client"), context(certificates)
        stranger = context(certificates)
        stranger.load_cert_chain(certificates / "other-ca.crt", certificates / "other-ca.key")
        assert ask(port, with_certificate, "PING") == b"PONG"
        for made in (without, stranger):
            with pytest.raises(ConnectionError):
                ask(port, made, "PING")
        with redis_py.Redis(port=engine.port) as plain:
            assert plain.ping()
            for value, lets_in in (("optional", (True, True, False)), ("no", (True, True, True))):
                plain.config_set("tls-auth-clients", value)
                wait_for(allowed(port, without), f"tls-auth-clients {value} to be in force")
                assert tuple(allowed(port, made)() for made in (with_certificate, without, stranger)) == lets_in
        assert "Traceback" not in engine.output.read_text()


def allowed(port: int, made: ssl.SSLContext) -> Callable[[], bool]:
    def is_let_in() -> bool:
        try:
            return ask(port, made, "PING") == b"PONG"
        except ConnectionError:
            return False

    return is_let_in


def test_port_0_serves_only_tls(certificates: Path) -> None:
    """With tls-port and port 0, the ready line has the TLS address, and plain clients cannot connect."""
    port = free_port()
    with servers.engine(*settings(certificates, port)) as engine:
        assert engine.port == port
        with socket.create_connection(("127.0.0.1", port), DEADLINE) as plain:
            plain.sendall(b"PING\r\n")
            assert b"PONG" not in plain.recv(100)
        assert ask(port, context(certificates, "client"), "PING") == b"PONG"


def test_invalid_tls_settings_stop_the_start(certificates: Path) -> None:
    """An invalid TLS setting stops the start with an error that names its directive."""
    port = str(free_port())
    base = ["--port", "0", "--save", "", "--tls-port", port, "--dir", str(certificates)]
    pair = ["--tls-cert-file", str(certificates / "server.crt"), "--tls-key-file", str(certificates / "server.key")]
    cases = (
        ([], "tls-cert-file and tls-key-file are needed for tls-port"),
        (pair, "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
        ([*pair, "--tls-ca-cert-file", "/nowhere"], "tls-ca-cert-file: /nowhere does not exist"),
        ([*pair[:2], "--tls-key-file", str(certificates / "client.key")], "cannot use the certificate"),
    )
    for (_, message), output in zip(cases, refused([[*base, *arguments] for arguments, _ in cases]), strict=True):
        assert message in output


def test_tls_contexts(certificates: Path) -> None:
    """Contexts accept encrypted keys with their password, contiguous protocol versions, and ciphers."""
    config = Config()
    for name, file in (("cert", "server.crt"), ("key", "locked.key"), ("ca-cert", "ca.crt")):
        config.put(f"tls-{name}-file", str(certificates / file).encode())
    with pytest.raises(ConfigError, match="cannot use the certificate"):
        server_context(config)
    config.put("tls-key-file-pass", b"pw")
    made = server_context(config)
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2
    config.put("tls-protocols", b"TLSv1.2 TLSv1.3")
    assert server_context(config).maximum_version is ssl.TLSVersion.TLSv1_3
    config.put("tls-protocols", b"TLSv1.1 TLSv1.3")
    with pytest.raises(ConfigError, match="cannot be left out"):
        server_context(config)
    config.put("tls-protocols", b"")
    config.put("tls-ciphers", b"ECDHE-ECDSA-AES256-GCM-SHA384")
    names = {cipher["name"] for cipher in server_context(config).get_ciphers()}
    assert "ECDHE-ECDSA-AES256-GCM-SHA384" in names
    assert "ECDHE-ECDSA-AES128-GCM-SHA256" not in names
    config.put("tls-auth-clients", b"no")
    config.put("tls-ca-cert-file", b"")
    made = server_context(config)
    assert made.verify_mode is ssl.CERT_NONE


def test_clients_that_stall_in_their_handshake_count(certificates: Path) -> None:
    """Clients that stall in the handshake count towards maxclients.

    If thirty silent clients connect and ten are allowed, the others are closed at once. The log still has descriptors,
    and new clients are served after the silent ones have disconnected.
    """
    port = free_port()
    flags = settings(certificates, port, "--port", str(free_port()), "--tls-auth-clients", "no", "--maxclients", "10")
    with servers.engine(*flags, "--appendonly", "yes") as engine, Connection(engine) as client:
        resource.prlimit(engine.pid, resource.RLIMIT_NOFILE, (42, 42))
        stalled = [socket.create_connection(("127.0.0.1", port), DEADLINE) for _ in range(30)]
        wait_for(lambda: b"rejected_connections:21" in client.run("INFO", "stats"), "21 clients to be sent away")
        client.run("BGREWRITEAOF")
        wait_for(lambda: b"aof_rewrite_in_progress:0" in client.run("INFO", "persistence"), "the rewrite to end")
        assert b"aof_last_bgrewrite_status:ok" in client.run("INFO", "persistence")
        with Connection(engine) as refused:
            assert str(refused.receive()) == "ERR max number of clients reached"
        for connection in stalled:
            connection.close()

        def served() -> bool:
            try:
                return ask(port, context(certificates), "PING") == b"PONG"
            except ConnectionError:
                return False

        wait_for(served, "a client to be served again")


def test_sighup_reloads_the_certificate(certificates: Path, tmp_path: Path) -> None:
    """A renewed certificate is used after SIGHUP; a broken one is logged, and the old one stays in use."""
    for name in ("server.crt", "server.key", "ca.crt"):
        (tmp_path / name).write_bytes((certificates / name).read_bytes())
    port, log = free_port(), tmp_path / "engine.log"
    made = context(certificates)
    with servers.engine(*settings(tmp_path, port, "--tls-auth-clients", "no", "--logfile", str(log))) as engine:

        def subject() -> bytes | None:
            with (
                socket.create_connection(("127.0.0.1", port), DEADLINE) as raw,
                made.wrap_socket(raw, server_hostname="localhost") as client,
            ):
                return client.getpeercert(binary_form=True)

        old = subject()
        for kind in ("crt", "key"):
            (tmp_path / f"server.{kind}").write_bytes((certificates / f"server2.{kind}").read_bytes())
        engine.process.send_signal(signal.SIGHUP)
        wait_for(lambda: subject() != old, "the new certificate")
        new = subject()
        (tmp_path / "server.crt").write_text("no certificate")
        engine.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "keeping the previous TLS files" in log.read_text(), "the refusal in the log")
        assert subject() == new


@pytest.fixture(params=["engine", pytest.param("redis", marks=pytest.mark.redis)])
def certified(request: pytest.FixtureRequest, certificates: Path) -> Iterator[tuple[redis_py.Redis, int]]:
    """Yield a plain client and the TLS port of a server that logs clients in by their certificates, as
    Redis 8.6 does.
    """
    if request.param == "redis" and not servers.redis_release().since("8.6"):
        pytest.skip(f"{servers.redis_release()} has no tls-auth-clients-user")
    port = free_port()
    flags = settings(certificates, port, "--tls-auth-clients", "optional", "--tls-auth-clients-user", "cn")
    started = servers.redis(*flags) if request.param == "redis" else servers.engine("--port", str(free_port()), *flags)
    with started as server, redis_py.Redis(port=server.port, protocol=2) as plain:
        yield plain, port


def test_the_common_name_of_a_certificate_is_the_user(
    certified: tuple[redis_py.Redis, int], certificates: Path
) -> None:
    """A client whose certificate names an enabled user needs no password; without a certificate it is
    the default user.
    """
    plain, port = certified
    plain.execute_command("ACL", "SETUSER", "client", "on", ">secret", "+acl|whoami")
    with_certificate, without = context(certificates, "client"), context(certificates)
    assert plain.config_get("tls-auth-clients-user") == {"tls-auth-clients-user": "CN"}
    assert ask(port, with_certificate, "ACL", "WHOAMI") == b"client"
    assert "NOPERM" in str(ask(port, with_certificate, "GET", "k"))
    assert ask(port, without, "ACL", "WHOAMI") == b"default"
    plain.execute_command("ACL", "SETUSER", "default", "resetpass", ">other")
    assert ask(port, with_certificate, "ACL", "WHOAMI") == b"client"
    assert "NOAUTH" in str(ask(port, without, "ACL", "WHOAMI"))
    plain.config_set("tls-auth-clients-user", "off")
    assert "NOAUTH" in str(ask(port, with_certificate, "ACL", "WHOAMI"))


def test_a_certificate_without_an_enabled_user_is_reported(
    certified: tuple[redis_py.Redis, int], certificates: Path
) -> None:
    """A client whose certificate names a missing or disabled user stays the default user.

    ACL LOG and INFO count both attempts.
    """
    plain, port = certified
    with_certificate = context(certificates, "client")
    assert ask(port, with_certificate, "ACL", "WHOAMI") == b"default"
    plain.execute_command("ACL", "SETUSER", "client", "off", "+@all")
    assert ask(port, with_certificate, "ACL", "WHOAMI") == b"default"
    (entry,) = plain.acl_log()
    shown = {name: entry[name] for name in ("count", "reason", "context", "object", "username")}
    assert shown == {"count": 2, "reason": "tls-cert", "context": "toplevel", "object": "", "username": "client"}
    assert plain.info("stats")["acl_access_denied_tls_cert"] == 2
