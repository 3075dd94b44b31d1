"""A link: one socket to one server. Small replies are parsed, pages of entries are received as bytes.

Owns the socket and nothing else: it does not reconnect, follow redirections or retry (that is
`streamclient.connection`). redis-py opens the socket (TLS, AUTH, SELECT), hiredis parses small replies. Pages
stay bytes, so that the codec decodes them without a Python object per value. The codec decodes RESP2, so the protocol
is RESP2.

The end of a page is found without parsing it: each request is followed by an ECHO of a random token, and the reply is
complete when the token has arrived. A link that failed in the middle of anything is closed and never used again:
what is left in it would be taken for the next reply.
"""

from __future__ import annotations

import logging
import secrets
import select
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, gaierror
from typing import Any

import hiredis
import redis
from redis.connection import Connection as TcpConnection
from redis.connection import SSLConnection, UnixDomainSocketConnection

from streamclient.commands import Command, streams_at
from streamclient.config.address import Endpoint, Login, Tls
from streamclient.credentials import provider_of
from streamclient.errors import PystreamsError, fail

BROKEN = (redis.ConnectionError, redis.TimeoutError, OSError)
"""Exceptions of a broken or unreachable socket. A server's error reply is `redis.ResponseError` instead."""

_packed: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its stub says tuples of one
_log = logging.getLogger("spark_streams")
_SMALL = 1 << 16
_NOTHING = object()
_ALERT_SECONDS = 1.0
_TIMEOUT_SECONDS = 60.0
_RETRY_SECONDS = 10.0  # how soon a provider that has failed then is asked again
_RENEW_SECONDS = 300.0  # how often a connection that is in use logs in with what its provider says now


def _answers(login: Login) -> float:
    """Seconds to wait for a reply."""
    return _TIMEOUT_SECONDS if login.answer_seconds is None else login.answer_seconds


def _open(endpoint: Endpoint, login: Login) -> Any:
    """redis-py's connection for the endpoint, not connected yet."""
    provider = provider_of(login)
    settings: dict[str, Any] = {
        "username": None if provider else login.username,
        "password": login.password,
        "credential_provider": provider,
        "db": login.database,
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": _answers(login) if login.tls is None else login.seconds,  # for the handshake
    }
    if endpoint.path:
        unix: Any = UnixDomainSocketConnection
        return unix(path=endpoint.path, **settings)
    settings |= {"host": endpoint.host, "port": endpoint.port, "socket_keepalive": True}
    settings["socket_connect_timeout"] = login.seconds
    if login.tls is None:
        tcp: Any = TcpConnection
        return tcp(**settings)
    encrypted: Any = SSLConnection
    return encrypted(**settings, **_tls_settings(login.tls))


def _tls_settings(tls: Tls) -> dict[str, Any]:
    """The settings under redis-py's names."""
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
    """The server's TLS alert, if that is why a connection failed.

    In TLS 1.3 the alert comes after the client's part of the handshake: a client that writes then only sees the
    connection end, while one that reads gets the alert.
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


class OtherProtocolError(redis.ConnectionError):
    """TLS was spoken to a server without it, or the reverse. `encrypted`: whether the server speaks TLS."""

    def __init__(self, encrypted: bool) -> None:
        super().__init__(f"the server {'speaks only TLS' if encrypted else 'does not speak TLS'}")
        self.encrypted = encrypted


def _speaks_tls(endpoint: Endpoint) -> bool:
    """Whether a server there answers the beginning of TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            create_connection((endpoint.host, endpoint.port), _ALERT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=endpoint.host),
        ):
            return True
    except OSError as failure:
        return isinstance(failure, ssl.SSLError) and "alert" in str(failure).lower()


def _speaks_plainly(endpoint: Endpoint) -> bool:
    """Whether a server there answers a command without TLS."""
    try:
        with create_connection((endpoint.host, endpoint.port), _ALERT_SECONDS) as plain:
            plain.sendall(b"PING\r\n")
            return plain.recv(1) in (b"+", b"-")
    except OSError:
        return False


def _refuse_missing_file(tls: Tls | None) -> None:
    """Raise INVALID_OPTION for a TLS file that is not there."""
    files = {} if tls is None else {"caFile": tls.ca_file, "certFile": tls.cert_file, "keyFile": tls.key_file}
    for name, path in files.items():
        if path is not None and not Path(path).is_file():
            fail("INVALID_OPTION", option=f"tls.{name}", value=path, expected="there is no such file on this machine")


class Link:
    """An open socket. Its methods raise `BROKEN` when it breaks; the caller closes it then.

    `request` or `send_raw` return a token, and `receive` takes it: requests may be received in any order.
    """

    def __init__(self, endpoint: Endpoint, login: Login) -> None:
        self.endpoint = endpoint
        self.logs_in_again = login.provider is not None
        """Whether `renew` has something to do."""
        self._login = login
        _refuse_missing_file(login.tls)
        self._answers = _answers(login)
        self.last_used = time.monotonic()
        self._skips: bool | None = None
        self._ahead = b""  # bytes of later replies that came with an earlier one
        self._due: list[bytes] = []  # tokens of raw requests, in order, whose replies were not received yet
        self._early: dict[bytes, tuple[bytearray, int]] = {}  # by token: replies received before they were asked for
        self._room = _SMALL  # size of the next buffer in bytes: the last reply's, and some
        self._link = _open(endpoint, login)
        self._logged_in = time.monotonic()
        try:
            self._connect()
            if login.tls is not None:
                self._link.socket_timeout = self._answers
                self._socket().settimeout(self._answers)
        except redis.AuthenticationError:
            raise
        except PystreamsError:
            self._link.disconnect()  # redis-py leaves the socket open where its provider fails
            raise
        except (redis.ConnectionError, redis.TimeoutError) as failure:
            self._check_protocol(failure)
            alert = _alert(endpoint, login) if login.tls is not None else None
            if alert is None:
                if login.tls is not None and login.tls.cert_file is None and "closed by server" in str(failure):
                    # Not every server says why: asyncio's TLS sends no alert. It may be a proxy without a server, too.
                    hint = "if it wants a certificate of its clients, name one with tls.certFile and tls.keyFile"
                    raise redis.ConnectionError(f"the server ended the connection at once; {hint}") from failure
                if isinstance(failure, redis.TimeoutError):  # redis-py does not say where
                    raise redis.TimeoutError(f"{failure} ({endpoint})") from failure
                raise
            reason = f"the server does not accept this client's TLS: {alert}; see tls.certFile and tls.keyFile"
            raise redis.ConnectionError(reason) from alert

    def _connect(self) -> None:
        """Connect and log in. A secret from elsewhere is asked for once more if it was refused: it may be a new one."""
        try:
            self._link.connect()
        except redis.AuthenticationError:
            if self._link.credential_provider is None:
                raise
            self._link.connect()

    def renew(self) -> None:
        """Log in with what the provider says now, if that was not done for some minutes: it may be about to expire.

        If the provider fails, the connection goes on as it is logged in, and it is asked again soon.
        """
        if time.monotonic() - self._logged_in < _RENEW_SECONDS:
            return
        try:
            credentials = self._link.credential_provider.get_credentials()
        except PystreamsError as missing:
            _log.warning("%s The connection is still logged in as before.", missing)
            self._logged_in = time.monotonic() - _RENEW_SECONDS + _RETRY_SECONDS
            return
        self._logged_in = time.monotonic()
        (reply,) = self.pipeline([("AUTH", *credentials)])
        if isinstance(reply, redis.ResponseError):
            raise redis.AuthenticationError(str(reply))

    def _check_protocol(self, failure: BaseException) -> None:
        """Raise OtherProtocolError, or INVALID_OPTION for a missing file, if that is why the connection failed.

        A server that refuses connections is not asked.
        """
        if isinstance(self._link, SSLConnection) and isinstance(failure.__context__, FileNotFoundError):
            _refuse_missing_file(self._login.tls)
        if self.endpoint.path or isinstance(failure.__context__, (ConnectionRefusedError, gaierror)):
            return
        encrypted = isinstance(self._link, SSLConnection)
        if encrypted and isinstance(failure.__context__, ssl.SSLCertVerificationError):
            return
        if _speaks_plainly(self.endpoint) if encrypted else _speaks_tls(self.endpoint):
            raise OtherProtocolError(not encrypted) from failure

    def close(self) -> None:
        """Close the socket. The link cannot be used afterwards."""
        self._link.disconnect()

    def _socket(self) -> Any:
        socket = self._link._sock
        if socket is None:
            raise redis.ConnectionError("the connection is closed")
        return socket

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands without reading replies."""
        self._socket()  # fails if it is closed: redis-py would open a new one, without the replies that are due
        self._link.send_packed_command([b"".join(map(_packed, commands))])

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies; an error reply is an element, not raised."""
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
        """Give blocking commands their own time on top of the socket's timeout."""
        blocks = [_blocks(command) for command in commands if command[0] in ("XREAD", "XREADGROUP", "WAIT")]
        if not any(blocks):
            yield
            return
        socket = self._socket()
        socket.settimeout(None if None in blocks else self._answers + sum(filter(None, blocks)))
        try:
            yield
        finally:
            socket.settimeout(self._answers)

    def request(self, commands: Sequence[Command]) -> bytes:
        """Send commands whose replies will be received as bytes. Returns the token for `receive`."""
        token = secrets.token_hex(16).encode()
        self._due.append(token)
        self.send([*commands, ("ECHO", token)])
        return token

    def send_raw(self, *data: Any) -> bytes:
        """As `request`, for commands that are encoded already."""
        token = secrets.token_hex(16).encode()
        self._due.append(token)
        self._socket().sendall(b"".join((*data, b"*2\r\n$4\r\nECHO\r\n$32\r\n%b\r\n" % token)))
        return token

    def has_input(self) -> bool:
        """Whether bytes have arrived that were not received yet."""
        if self._ahead:
            return True
        socket = self._socket()
        if not select.select([socket], [], [], 0)[0]:
            return False
        if not isinstance(socket, ssl.SSLSocket):
            return True
        # A TLS socket may be readable because of TLS's own records.
        socket.settimeout(0)
        try:
            self._ahead = socket.recv(1)
        except ssl.SSLWantReadError:
            return False
        finally:
            socket.settimeout(self._answers)
        return True

    def can_skip_replies(self) -> bool:
        """Whether the server knows CLIENT REPLY SKIP. It is asked once per link."""
        if self._skips is None:
            _, stop = self.receive(self.request([("CLIENT", "REPLY", "SKIP"), ("PING",)]))
            self._skips = stop == 0
        return self._skips

    def receive(self, token: bytes) -> tuple[bytearray, int]:
        """The replies to a request: a buffer, and the position in it where they end. The caller keeps the buffer."""
        self._receive_due(token)
        return self._early.pop(token)

    def receive_due(self) -> None:
        """Receive all replies that are due: `receive` gives them also when the link has been closed."""
        self._receive_due(None)

    def _receive_due(self, token: bytes | None) -> None:
        """Receive what is due up to that token; everything that is due without one."""
        while self._due and token not in self._early:
            self._early[self._due[0]] = self._receive(self._due[0])
            del self._due[0]  # only now: what was not received is still due

    def _receive(self, token: bytes) -> tuple[bytearray, int]:
        end = b"$32\r\n%b\r\n" % token
        buffer, filled = bytearray(max(self._room, len(self._ahead))), len(self._ahead)
        buffer[:filled] = self._ahead
        searched = 0
        while True:
            if buffer.endswith(end, 0, filled):
                at = filled - len(end)
            elif len(self._due) > 1:  # otherwise nothing can follow the token, so it can only be at the end
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
                got = self._socket().recv_into(view[filled:])
            if not got:
                raise redis.ConnectionError("the server closed the connection")
            filled += got


def _blocks(command: Command) -> float | None:
    """Seconds for which an XREAD, XREADGROUP or WAIT may block: 0.0 if it does not block, None if indefinitely."""
    if command[0] == "WAIT":
        ms = int(command[2])
        return ms / 1000 if ms else None
    begin, end = 4 if command[0] == "XREADGROUP" else 1, streams_at(command)
    if "BLOCK" not in command[begin:end]:
        return 0.0
    ms = int(command[command.index("BLOCK", begin, end) + 1])
    return ms / 1000 if ms else None
