"""One socket to one server: small commands and their replies, pages of frames as the bytes they are.

Owns the socket and nothing else: it does not reconnect, follow redirections or try anything twice (that is
`spark_streams.client.connection`). redis-py opens it (TLS, AUTH, SELECT), hiredis parses small replies; a page is
received as bytes, so that the codec gets it without a Python object per value. The protocol is RESP2 on purpose: its
frames are what the codec proves.

The end of a page is found without parsing it: behind each request an ECHO of a word goes out that nobody can know
beforehand, and the reply has arrived when that word has. A link on which anything went wrong midway is closed, never
used again: what is left in it would be taken for the next reply.
"""

from __future__ import annotations

import secrets
import select
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hiredis
import redis
from redis.connection import Connection as TcpConnection
from redis.connection import SSLConnection, UnixDomainSocketConnection

from spark_streams.config.address import Endpoint, Login, Tls

Command = tuple[bytes | str | int, ...]

BROKEN = (redis.ConnectionError, redis.TimeoutError, OSError)
"""What a socket fails with; refusals of the server are `redis.ResponseError`."""

_SMALL = 1 << 16
_NOTHING = object()
_CONNECT_SECONDS = 10.0
_ALERT_SECONDS = 1.0
_TIMEOUT_SECONDS = 60.0


def _open(endpoint: Endpoint, login: Login) -> Any:
    settings: dict[str, Any] = {
        "username": login.username,
        "password": login.password,
        "db": login.database,
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": _TIMEOUT_SECONDS,
    }
    if endpoint.path:
        unix: Any = UnixDomainSocketConnection
        return unix(path=endpoint.path, **settings)
    settings |= {"host": endpoint.host, "port": endpoint.port, "socket_keepalive": True}
    settings["socket_connect_timeout"] = _CONNECT_SECONDS
    if login.tls is None:
        tcp: Any = TcpConnection
        return tcp(**settings)
    encrypted: Any = SSLConnection
    return encrypted(**settings, **_tls_settings(login.tls))


def _tls_settings(tls: Tls) -> dict[str, Any]:
    """redis-py's names for them."""
    settings = {
        "ssl_cert_reqs": "none" if tls.verify == "none" else "required",
        "ssl_check_hostname": tls.verify == "full",
        "ssl_ca_certs": tls.ca_file,
        "ssl_certfile": tls.cert_file,
        "ssl_keyfile": tls.key_file,
        "ssl_password": tls.key_password,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _alert(endpoint: Endpoint, login: Login) -> ssl.SSLError | None:
    """What the server says against our side of TLS, if that is why a connection failed.

    Since TLS 1.3 it says so after the client's part of the handshake is done, so whoever writes then sees no more than
    a connection that ends, and whoever reads sees the reason.
    """
    socket = None
    try:
        socket = _open(endpoint, login)._connect()
        socket.settimeout(_ALERT_SECONDS)
        socket.recv(1)
    except ssl.SSLError as alert:
        return alert if "alert" in str(alert).lower() else None
    except (redis.RedisError, OSError):
        return None
    finally:
        if socket is not None:
            socket.close()
    return None


class Link:
    """An open socket. Its methods raise `BROKEN` when it breaks; the caller is to close it then."""

    def __init__(self, endpoint: Endpoint, login: Login) -> None:
        self.endpoint = endpoint
        self.used = time.monotonic()
        self._skips: bool | None = None
        self._ahead = b""  # replies to a later request that came with those to an earlier one
        self._due: list[bytes] = []  # the words behind raw requests, in order, whose replies were not received yet
        self._early: dict[bytes, tuple[bytearray, int]] = {}  # replies that were received before they were asked for
        self._room = _SMALL  # for a reply as large as the last one, and some
        self._link = _open(endpoint, login)
        try:
            self._link.connect()
        except redis.ConnectionError:
            alert = _alert(endpoint, login) if login.tls is not None else None
            if alert is None:
                raise
            said = f"the server does not accept this client's TLS: {alert}; see tls.certFile and tls.keyFile"
            raise redis.ConnectionError(said) from alert

    def close(self) -> None:
        self._link.disconnect()

    def _socket(self) -> Any:
        socket = self._link._sock
        if socket is None:
            raise redis.ConnectionError("the connection is closed")
        return socket

    def send(self, commands: Sequence[Command]) -> None:
        self._socket()  # redis-py would open another one, which knows nothing of what was asked before
        self._link.send_packed_command(self._link.pack_commands(commands))

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """The replies of these commands; a server's error is the element in its place."""
        if not commands:
            return []
        self._receive_due(None)
        self.send(commands)
        with self._patience(commands):
            return self._replies(len(commands))

    def _replies(self, count: int) -> list[Any]:
        reader = hiredis.Reader(replyError=redis.ResponseError, notEnoughData=_NOTHING)
        if self._ahead:
            reader.feed(self._ahead)
            self._ahead = b""
        replies: list[Any] = []
        while True:
            while len(replies) < count and (reply := reader.gets()) is not _NOTHING:
                replies.append(reply)
            if len(replies) == count:
                return replies
            data = self._socket().recv(_SMALL)
            if not data:
                raise redis.ConnectionError("the server closed the connection")
            reader.feed(data)

    @contextmanager
    def _patience(self, commands: Sequence[Command]) -> Iterator[None]:
        """A command that blocks may take as long as it says, and the socket's timeout on top."""
        blocks = [_blocks(command) for command in commands if command[0] in ("XREAD", "XREADGROUP", "WAIT", "BLPOP")]
        if not any(blocks):
            yield
            return
        socket = self._socket()
        socket.settimeout(None if None in blocks else _TIMEOUT_SECONDS + sum(filter(None, blocks)))
        try:
            yield
        finally:
            socket.settimeout(_TIMEOUT_SECONDS)

    def request(self, commands: Sequence[Command]) -> bytes:
        """Send commands whose replies are to be received raw; gives the word that `receive` waits for."""
        word = secrets.token_hex(16).encode()
        self._due.append(word)
        self.send([*commands, ("ECHO", word)])
        return word

    def send_raw(self, *data: Any) -> bytes:
        """As `request`, for commands that are bytes already."""
        word = secrets.token_hex(16).encode()
        self._due.append(word)
        self._socket().sendall(b"".join((*data, b"*2\r\n$4\r\nECHO\r\n$32\r\n%b\r\n" % word)))
        return word

    def has_input(self) -> bool:
        """Whether something has arrived that was not received yet."""
        if self._ahead:
            return True
        socket = self._socket()
        if not select.select([socket], [], [], 0)[0]:
            return False
        if not isinstance(socket, ssl.SSLSocket):
            return True
        # What makes a TLS socket readable may be TLS's own business.
        socket.settimeout(0)
        try:
            self._ahead = socket.recv(1)
        except ssl.SSLWantReadError:
            return False
        finally:
            socket.settimeout(_TIMEOUT_SECONDS)
        return True

    def can_skip_replies(self) -> bool:
        """Whether the server knows CLIENT REPLY SKIP; it is asked once."""
        if self._skips is None:
            _, stop = self.receive(self.request([("CLIENT", "REPLY", "SKIP"), ("PING",)]))
            self._skips = stop == 0
        return self._skips

    def receive(self, word: bytes) -> tuple[bytearray, int]:
        """The replies to a request: a buffer, and where in it they end. The buffer is the caller's to keep."""
        self._receive_due(word)
        return self._early.pop(word)

    def _receive_due(self, word: bytes | None) -> None:
        """Receive what is due up to that word; all that is due if there is none."""
        while self._due and word not in self._early:
            first = self._due.pop(0)
            self._early[first] = self._receive(first)

    def _receive(self, word: bytes) -> tuple[bytearray, int]:
        end = b"$32\r\n%b\r\n" % word
        socket = self._link._sock
        buffer, filled = bytearray(max(self._room, len(self._ahead))), len(self._ahead)
        buffer[:filled] = self._ahead
        searched = 0
        while True:
            if buffer.endswith(end, 0, filled):
                at = filled - len(end)
            elif self._due:  # else nothing can follow the word, and there is nothing to look for but at the end
                at = buffer.find(end, searched, filled)
                searched = max(0, filled - len(end))
            else:
                at = -1
            if at >= 0:
                self._ahead = bytes(buffer[at + len(end) : filled])
                self._room = max(_SMALL, filled + filled // 4)
                return buffer, at
            if filled == len(buffer):
                buffer += bytes(len(buffer))
            with memoryview(buffer) as view:
                got = socket.recv_into(view[filled:])
            if not got:
                raise redis.ConnectionError("the server closed the connection")
            filled += got


def _blocks(command: Command) -> float | None:
    """How many seconds a command may block: 0.0 where it does not, None for as long as it takes."""
    if command[0] == "WAIT":
        ms = int(command[2])
        return ms / 1000 if ms else None
    for at, word in enumerate(command):
        if isinstance(word, str) and word.upper() == "BLOCK":
            ms = int(command[at + 1])
            return ms / 1000 if ms else None
    return 0.0
