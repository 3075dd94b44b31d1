"""Opening a socket to a server: TCP, TLS or Unix. Errors of `open_socket` name the endpoint or the TLS option."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamclient.config.address import Endpoint, Tls
from streamclient.errors import LinkError, fail
from streamwire.lazy import ssl

_ALERT_SECONDS = 1.0  # timeout of connections that only find out the server's protocol or TLS alert


class OtherProtocolError(LinkError):
    """The client used TLS and the server does not, or the reverse. `encrypted`: whether the server uses TLS."""

    def __init__(self, encrypted: bool) -> None:
        super().__init__(f"the server {'accepts only TLS' if encrypted else 'does not use TLS'}")
        self.encrypted = encrypted


def open_socket(endpoint: Endpoint, tls: Tls | None, seconds: float) -> socket.socket:
    """Return a connected socket, after the TLS handshake if `tls` is given. Each step takes at most `seconds`.

    Raises LinkError with the cause, or INVALID_OPTION for TLS files that cannot be used.
    """
    context = None if tls is None else tls_context(tls)
    opened: socket.socket | None = None
    try:
        if endpoint.path:
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            opened.settimeout(seconds)
            opened.connect(endpoint.path)
        else:
            opened = socket.create_connection((endpoint.host, endpoint.port), seconds)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context is not None:
                opened = context.wrap_socket(opened, server_hostname=endpoint.host)
    except OSError as failure:
        if opened is not None:
            opened.close()
        text = failure.strerror if failure.strerror and not isinstance(failure, ssl.SSLError) else str(failure)
        raise LinkError(f"{text or type(failure).__name__} ({endpoint})") from failure
    return opened


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context for these settings. Raises INVALID_OPTION for a file that is missing or has no PEM data."""
    with _loading("caFile", tls.ca_file):
        context = ssl.create_default_context(cafile=tls.ca_file)
    context.check_hostname = tls.verify == "full"
    context.verify_mode = ssl.CERT_NONE if tls.verify == "none" else ssl.CERT_REQUIRED
    certificate = tls.cert_file or tls.key_file
    if certificate is not None:
        with _loading("keyFile", tls.key_file), _loading("certFile", tls.cert_file):
            context.load_cert_chain(certificate, tls.key_file, tls.key_password or "")  # None would prompt the user
    return context


@contextmanager
def _loading(name: str, path: str | None) -> Iterator[None]:
    """Raise INVALID_OPTION for a file of TLS that is missing or cannot be loaded."""
    if path is not None and not Path(path).is_file():
        fail("INVALID_OPTION", option=f"tls.{name}", value=path, expected="there is no such file on this machine")
    try:
        yield
    except ssl.SSLError as cause:
        if path is None:
            raise
        expected = f"it cannot be loaded as PEM data; an encrypted key needs tls.keyPassword ({cause})"
        fail("INVALID_OPTION", option=f"tls.{name}", value=path, expected=expected)


def tls_alert(endpoint: Endpoint, tls: Tls, seconds: float) -> ssl.SSLError | None:
    """Connect again and return the server's TLS alert; None if the server sends no alert.

    In TLS 1.3 the alert arrives after the client's part of the handshake. A client that writes at that moment only sees
    the end of the connection, so this function reads.
    """
    try:
        with open_socket(endpoint, tls, seconds) as opened:
            opened.settimeout(_ALERT_SECONDS)
            opened.recv(1)
    except OSError as failure:
        alert = failure.__cause__ if isinstance(failure, LinkError) else failure
        return alert if isinstance(alert, ssl.SSLError) and "alert" in str(alert).lower() else None
    return None


def check_protocol(endpoint: Endpoint, failure: BaseException, *, encrypted: bool) -> None:
    """Raise OtherProtocolError if a connection failed because only one side uses TLS.

    Unix sockets, unknown hosts, refused connections and rejected certificates are not examined.
    """
    cause = failure.__cause__
    if endpoint.path or isinstance(cause, (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)):
        return
    if _answers_plainly(endpoint) if encrypted else _answers_tls(endpoint):
        raise OtherProtocolError(not encrypted) from failure


def _answers_tls(endpoint: Endpoint) -> bool:
    """Return whether the server answers the start of a TLS handshake."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((endpoint.host, endpoint.port), _ALERT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=endpoint.host),
        ):
            return True
    except OSError as failure:
        return isinstance(failure, ssl.SSLError) and "alert" in str(failure).lower()


def _answers_plainly(endpoint: Endpoint) -> bool:
    """Return whether the server answers a command without TLS."""
    try:
        with socket.create_connection((endpoint.host, endpoint.port), _ALERT_SECONDS) as plain:
            plain.sendall(b"PING\r\n")
            return plain.recv(1) in (b"+", b"-")
    except OSError:
        return False
