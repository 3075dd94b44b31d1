"""TLS: what the ``tls-`` directives say, as a context of the ssl module, and the listener that uses it.

A change of a directive makes a new context; connections that exist keep theirs. A context that cannot be made is an
error that leaves the old one in force.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.observation.reporting import LOG
from engine.shell.observation.traffic import Traffic

_VERSIONS = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENTS = {b"yes": ssl.CERT_REQUIRED, b"optional": ssl.CERT_OPTIONAL, b"no": ssl.CERT_NONE}
#: The directives that a context depends on.
DIRECTIVES = (
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-auth-clients",
    "tls-protocols",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-prefer-server-ciphers",
    "tls-session-caching",
    "tls-dh-params-file",
)
_HANDSHAKE_SECONDS = 10.0
#: Before the next attempt, where there are no descriptors.
_PAUSE_SECONDS = 0.1


def context_of(config: Config) -> ssl.SSLContext:
    """The context that the directives describe; a ConfigError that names what is wrong."""

    def text(name: str) -> str:
        return config.text(name).decode("utf-8", "surrogateescape")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _protocols(context, text("tls-protocols"))
    certificate, key = text("tls-cert-file"), text("tls-key-file")
    if not certificate or not key:
        raise ConfigError("tls-cert-file and tls-key-file are needed for tls-port")
    # Without a password of its own a locked key would have OpenSSL ask for one on the terminal.
    password = text("tls-key-file-pass")
    files = _existing("tls-cert-file", certificate), _existing("tls-key-file", key)
    try:
        context.load_cert_chain(*files, lambda: password)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot use the certificate {certificate} with the key {key}: {error}") from None
    _authorities(context, text("tls-ca-cert-file"), text("tls-ca-cert-dir"), config.text("tls-auth-clients"))
    _ciphers(context, text("tls-ciphers"), text("tls-ciphersuites"))
    if text("tls-dh-params-file"):
        file = _existing("tls-dh-params-file", text("tls-dh-params-file"))
        try:
            context.load_dh_params(file)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot use tls-dh-params-file: {error}") from None
    if config.flag("tls-prefer-server-ciphers"):
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if not config.flag("tls-session-caching"):
        context.options |= ssl.OP_NO_TICKET
    return context


def _existing(name: str, path: str) -> str:
    if not Path(path).exists():
        raise ConfigError(f"{name}: {path} does not exist")
    return path


def _protocols(context: ssl.SSLContext, words: str) -> None:
    """Versions from the lowest to the highest that is named; without a word TLS 1.2 and later."""
    names = words.lower().split()
    if not names:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return
    if not set(names) <= set(_VERSIONS):
        raise ConfigError(
            "Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and 'TLSv1.3'."
        )
    order = list(_VERSIONS)
    places = sorted({order.index(name) for name in names})
    if places[-1] - places[0] != len(places) - 1:
        raise ConfigError("tls-protocols: a version between two others cannot be left out")
    context.minimum_version = _VERSIONS[order[places[0]]]
    context.maximum_version = _VERSIONS[order[places[-1]]]


def _authorities(context: ssl.SSLContext, file: str, directory: str, clients: bytes) -> None:
    context.verify_mode = _CLIENTS[clients]
    if file or directory:
        cafile = _existing("tls-ca-cert-file", file) if file else None
        capath = _existing("tls-ca-cert-dir", directory) if directory else None
        try:
            context.load_verify_locations(cafile, capath)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot use the CA certificates of {file or directory}: {error}") from None
    elif clients != b"no":
        raise ConfigError(
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is enabled"
        )


def _ciphers(context: ssl.SSLContext, older: str, newer: str) -> None:
    try:
        if older:
            context.set_ciphers(older)
        if newer:
            choose: Callable[[str], None] | None = getattr(context, "set_ciphersuites", None)
            if choose is None:
                raise ConfigError("tls-ciphersuites: this Python cannot choose the ciphers of TLS 1.3 (3.15 can)")
            choose(newer)
    except ssl.SSLError as error:
        raise ConfigError(f"tls-ciphers: {error}") from None


class Clients(Protocol):
    """The server's clients, as the listener knows them."""

    #: Counts clients whose handshake is not done.
    traffic: Traffic

    def is_full(self) -> bool:
        """Whether there is no room for one more client, those in a handshake counted."""


class TlsListener:
    """Accepts clients over TLS on sockets that are bound already; follows the directives.

    A client counts from the moment at which it connects, because it takes a descriptor before its handshake is done.
    """

    def __init__(self, config: Config, clients: Clients, accept: Callable[[], asyncio.Protocol], backlog: int) -> None:
        self._config = config
        self._clients = clients
        self._accept = accept
        self._backlog = backlog
        self._context = context_of(config)
        #: Those that accept, and those that wait for handshakes.
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []

    def start(self, sockets: list[socket.socket]) -> None:
        """Begin to accept; the sockets are the listener's from now on."""
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        for sock in sockets:
            sock.listen(self._backlog)
            self._begin(self._serve(sock))
        for name in DIRECTIVES:
            self._config.on_change(name, self._follow)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket) -> None:
        while True:
            try:
                client, _ = await self._loop.sock_accept(sock)
            except OSError as error:
                LOG.warning("a client could not be accepted: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if self._clients.is_full():
                self._clients.traffic.rejected += 1
                client.close()
            else:
                client.setblocking(False)
                self._begin(self._shake_hands(client))

    async def _shake_hands(self, client: socket.socket) -> None:
        traffic = self._clients.traffic
        traffic.handshaking += 1
        try:
            await self._loop.connect_accepted_socket(
                self._accept, client, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
            )
        except OSError as error:
            LOG.info("a client's TLS handshake failed: %s", str(error) or type(error).__name__)
        finally:
            traffic.handshaking -= 1

    def _follow(self) -> None:
        self._context = context_of(self._config)

    def close(self) -> None:
        """Accept nobody any more."""
        for task in self._tasks:
            task.cancel()
        for sock in self._sockets:
            sock.close()
