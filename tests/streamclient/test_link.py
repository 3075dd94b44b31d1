"""The start of a connection, on a real Redis and on the engine: login, database, TLS files, and servers that are not
Redis.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from streamclient.config.address import Endpoint, Login, Tls
from streamclient.errors import HandshakeError, LinkError, LoginRefusedError, PystreamsError
from streamclient.link import Link
from tests import servers
from tests.servers import certificates


def opened(instance: servers.Running, **login: Any) -> Link:
    return Link(Endpoint(instance.host, instance.port), Login(**login))


@contextmanager
def replying(*replies: bytes) -> Iterator[Endpoint]:
    """Run a server that answers the first bytes of each connection with the next reply and closes it; yield its
    endpoint.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for reply in replies:
                with listener.accept()[0] as client:
                    client.recv(1000)
                    client.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Endpoint("127.0.0.1", listener.getsockname()[1])
        thread.join(10)


def test_a_login_selects_user_and_database(client: redis.Redis, instance: servers.Running) -> None:
    """A password without a user logs in the default user; a rejected password is an error that does not show it."""
    client.acl_setuser("job", enabled=True, passwords=["+pass"], keys=["*"], commands=["+@all"])
    try:
        link = opened(instance, username="job", password="pass", database=3)
        who, info = link.pipeline([("ACL", "WHOAMI"), ("CLIENT", "INFO")])
        assert (who, b" db=3 " in info) == (b"job", True)
        assert (b"lib-name=pystreams" in info) == (b"lib-name=" in info)
        for login in ({"username": "job", "password": "s3cret"}, {"username": "nobody", "password": "s3cret"}):
            with pytest.raises(LoginRefusedError) as caught:
                opened(instance, **login)
            assert "s3cret" not in str(caught.value)
        with pytest.raises(HandshakeError, match="SELECT 99999: ERR"):
            opened(instance, database=99999)
    finally:
        client.acl_deluser("job")


def test_a_user_without_rights_to_the_handshake_is_connected(client: redis.Redis, instance: servers.Running) -> None:
    """A user without the right to CLIENT SETINFO is connected; without the right to SELECT, only to database 0."""
    client.acl_setuser("job", enabled=True, passwords=["+pass"], keys=["*"], commands=["+ping"])
    try:
        assert opened(instance, username="job", password="pass").pipeline([("PING",)]) == [b"PONG"]
        with pytest.raises(HandshakeError, match="SELECT 1: NOPERM"):
            opened(instance, username="job", password="pass", database=1)
    finally:
        client.acl_deluser("job")


def test_servers_that_cannot_serve_are_told_apart() -> None:
    """A full server and a web server break the connection, each with its reason; protected mode fails the handshake."""
    with replying(b"-ERR max number of clients reached\r\n", b"") as full, pytest.raises(LinkError, match="max number"):
        Link(full, Login(password="x"))
    with replying(b"-DENIED Redis is running in protected mode\r\n") as closed, pytest.raises(HandshakeError) as denied:
        Link(closed, Login())
    assert "DENIED" in str(denied.value.reply)
    with replying(b"HTTP/1.1 400 Bad Request\r\n\r\n", b"") as web, pytest.raises(LinkError, match="is not RESP"):
        Link(web, Login())


def test_files_of_tls_that_cannot_be_loaded_are_invalid_options(tmp_path: Path) -> None:
    """A missing file, a file without PEM data, and a key that does not match the certificate are errors of their
    options.
    """
    ca = certificates.authority(tmp_path, "ca")
    pair, stranger = (certificates.certificate(tmp_path, name, ca) for name in ("mine", "other"))
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for tls, option in (
        (Tls(ca_file=str(tmp_path / "none")), "tls.caFile"),
        (Tls(ca_file=str(text)), "tls.caFile"),
        (Tls(cert_file=str(text), key_file=str(pair.key)), "tls.certFile"),
        (Tls(cert_file=str(pair.certificate), key_file=str(stranger.key)), "tls.certFile"),
        (Tls(cert_file=str(pair.certificate), key_file=str(tmp_path / "none")), "tls.keyFile"),
    ):
        with pytest.raises(PystreamsError, match=f"INVALID_OPTION.*{option}"):
            Link(Endpoint("127.0.0.1", servers.free_port()), Login(tls=tls))


def test_a_forked_process_leaves_the_connection_open(instance: servers.Running) -> None:
    """A forked child that ends, or closes its copy of a link, does not close the parent's connection."""
    link = opened(instance)
    child = os.fork()
    if not child:
        link.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert link.pipeline([("PING",)]) == [b"PONG"]
