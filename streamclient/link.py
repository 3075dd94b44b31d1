"""A link: one socket to one server. Small replies are parsed, pages of entries are received as bytes.

Owns the socket, its login and its database. It does not reconnect, follow redirections or retry, which is the task of
`streamclient.connection`. hiredis parses small replies. Pages stay bytes, so that the codec decodes them without a
Python object per value. The codec decodes RESP2, so the protocol is RESP2.

The end of a page is found without parsing: each request is followed by an ECHO of a random token, and the reply is
complete when the token arrives. A link that failed is closed and never used again, since the rest of a reply could be
mistaken for the next reply.
"""

from __future__ import annotations

import logging
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import hiredis

from streamclient.commands import Command, streams_at
from streamclient.config.address import Endpoint, Login
from streamclient.credentials import provider_of
from streamclient.errors import HandshakeError, LinkError, LoginRefusedError, PystreamsError, ResponseError
from streamclient.sockets import check_protocol, open_socket, tls_alert
from streamwire.lazy import ssl

_packed: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]  # the stub allows only one word
_log = logging.getLogger("spark_streams")
_SMALL = 1 << 16  # bytes that are received at once, and minimum size of a buffer
_NOTHING = object()
_CLOSED = "the server closed the connection"
_TOO_MANY = "max number of clients"
_LOGIN_CODES = ("WRONGPASS", "ERR", "NOAUTH", "NOPERM")
_TIMEOUT_SECONDS = 60.0  # default timeout of a reply
_TOLD_SECONDS = 2.0  # time without a reply after which `Login.on_wait` is called
_RETRY_SECONDS = 10.0  # time after a failed renewal, before the provider is called again
_RENEW_SECONDS = 300.0  # interval at which a used connection logs in with its provider's current credentials


def _refusal(command: str, reply: ResponseError) -> Exception:
    """Return the error for a refused command of the handshake. Too many clients are a temporary failure."""
    return LinkError(str(reply)) if _TOO_MANY in str(reply) else HandshakeError(command, reply)


class Link:
    """An open socket. The methods raise `BROKEN` if the socket breaks; then the caller must close the link.

    `request` and `send_raw` return a token for `receive`. Replies may be received in any order.
    """

    def __init__(self, endpoint: Endpoint, login: Login) -> None:
        self._process = os.getpid()
        self._open: socket.socket | None = None
        self.endpoint = endpoint
        #: Whether the link has a provider, so that `renew` must be called.
        self.logs_in_again = login.provider is not None
        self._login = login
        self._provider = provider_of(login)
        self.wait_at_most(login)
        self.last_used = time.monotonic()
        #: Number of commands sent by `send`, `pipeline` and `request`, as servers count them.
        self.sent = 0
        self._skips: bool | None = None
        self._ahead = b""  # bytes of later replies that came with an earlier one
        self._due: list[bytes] = []  # tokens of raw requests without a received reply, in order
        self._early: dict[bytes, tuple[bytearray, int]] = {}  # by token: replies that arrived before their `receive`
        self._room = _SMALL  # size of the next buffer in bytes: a little more than the last reply
        self._connect()
        self._logged_in = time.monotonic()

    def wait_at_most(self, login: Login) -> None:
        """Use the reply timeout of this login from now on."""
        self._answers = _TIMEOUT_SECONDS if login.answer_seconds is None else login.answer_seconds
        if self._open is not None:
            self._open.settimeout(self._answers)

    def _connect(self) -> None:
        """Connect and log in.

        If the login is refused, the file or provider is read again, since the secret may have changed.
        """
        try:
            self._handshake()
        except LoginRefusedError:
            self.close()
            if self._provider is None:
                raise
            self._handshake()

    def _handshake(self) -> None:
        """Open the socket, log in and select the database."""
        endpoint, tls = self.endpoint, self._login.tls
        try:
            self._open = open_socket(endpoint, tls, self._login.seconds)
            self._open.settimeout(self._answers)
            self._log_in()
            self._name_and_select()
        except LoginRefusedError:
            raise
        except OSError as failure:
            self.close()
            if isinstance(failure, TimeoutError):  # the server accepted the connection, and hangs
                raise
            check_protocol(endpoint, failure, encrypted=tls is not None)
            if tls is None:
                raise
            alert = tls_alert(endpoint, tls, self._login.seconds)
            if alert is not None:
                reason = f"the server rejected this client's TLS: {alert}; see tls.certFile and tls.keyFile"
                raise LinkError(reason) from alert
            if tls.cert_file is None and _CLOSED in str(failure):
                # The server gave no reason, so name a likely one. (asyncio's TLS sends no alert.)
                hint = "if it requires a client certificate, name one with tls.certFile and tls.keyFile"
                raise LinkError(f"the server ended the connection at once; {hint}") from failure
            raise
        except BaseException:
            self.close()
            raise

    def _log_in(self) -> None:
        """Send AUTH if the login has a provider, a user or a password."""
        login = self._login
        if self._provider is not None:
            words = tuple(self._provider())
        elif login.password is not None or login.username is not None:
            words = (login.password or "",) if login.username is None else (login.username, login.password or "")
        else:
            return
        (reply,) = self.pipeline([("AUTH", *words)])
        if isinstance(reply, ResponseError):
            code, _, text = str(reply).partition(" ")
            if code in _LOGIN_CODES and _TOO_MANY not in text:
                raise LoginRefusedError(text)
            raise _refusal("AUTH", reply)

    def _name_and_select(self) -> None:
        """Send the client library's name, ignoring servers that refuse it, and select the database."""
        commands: list[Command] = [("CLIENT", "SETINFO", "LIB-NAME", "pystreams")]
        if self._login.database:
            commands.append(("SELECT", self._login.database))
        named, *selected = self.pipeline(commands)
        if isinstance(named, ResponseError) and (_TOO_MANY in str(named) or str(named).startswith("DENIED")):
            raise _refusal("CLIENT SETINFO", named)
        if selected and isinstance(selected[0], ResponseError):
            raise _refusal(f"SELECT {self._login.database}", selected[0])

    def renew(self) -> None:
        """Log in with the provider's current credentials if the last login was five minutes ago or more.

        This prevents the login from expiring. If the provider fails, the connection keeps its login, and the provider
        is called again after ten seconds. Raises LoginRefusedError if the server refuses the new credentials.
        """
        if self._provider is None or time.monotonic() - self._logged_in < _RENEW_SECONDS:
            return
        try:
            credentials = self._provider()
        except PystreamsError as missing:
            _log.warning("%s The connection keeps its previous login.", missing)
            self._logged_in = time.monotonic() - _RENEW_SECONDS + _RETRY_SECONDS
            return
        self._logged_in = time.monotonic()
        (reply,) = self.pipeline([("AUTH", *credentials)])
        if isinstance(reply, ResponseError):
            raise LoginRefusedError(str(reply))

    def close(self) -> None:
        """Close the socket. The link cannot be used afterwards."""
        opened, self._open = self._open, None
        if opened is None:
            return
        if self._process == os.getpid():  # after a fork, the parent still uses the connection
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        opened.close()

    def __del__(self) -> None:
        # Close abandoned links here, so that Python does not warn of an unclosed socket.
        self.close()

    def _socket(self) -> socket.socket:
        if self._open is None:
            raise LinkError("the connection is closed")
        return self._open

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands without reading replies."""
        self._socket().sendall(b"".join(map(_packed, commands)))
        self.sent += len(commands)

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies; an error reply is an element, not raised."""
        if not commands:
            return []
        self.receive_due()
        self.send(commands)
        with self._blocking_timeout(commands):
            return self._replies(len(commands))

    def _replies(self, count: int) -> list[Any]:
        reader = hiredis.Reader(replyError=ResponseError, notEnoughData=_NOTHING)
        if self._ahead:
            reader.feed(self._ahead)
            self._ahead = b""
        replies: list[Any] = []
        while True:
            try:
                while len(replies) < count and (reply := reader.gets()) is not _NOTHING:
                    replies.append(reply)
            except hiredis.ProtocolError as other:
                raise LinkError(f"the server's reply is not RESP: {other}") from other
            if len(replies) == count:
                return replies
            self._tell_of_wait()
            data = self._socket().recv(_SMALL)
            if not data:
                raise LinkError(_CLOSED)
            reader.feed(data)

    def _tell_of_wait(self) -> None:
        """Call the login's `on_wait` if no bytes arrive for two seconds, and wait for the rest of the timeout."""
        tell, opened = self._login.on_wait, self._socket()
        most = opened.gettimeout()
        if tell is None or most is None or most <= _TOLD_SECONDS:
            return
        if isinstance(opened, ssl.SSLSocket) and opened.pending():
            return
        if not select.select([opened], [], [], _TOLD_SECONDS)[0]:
            tell(self.endpoint)
            if not select.select([opened], [], [], most - _TOLD_SECONDS)[0]:
                raise TimeoutError("timed out")

    @contextmanager
    def _blocking_timeout(self, commands: Sequence[Command]) -> Iterator[None]:
        """Extend the socket's timeout by the time for which the commands may block."""
        blocks = [_blocks(command) for command in commands if command[0] in ("XREAD", "XREADGROUP", "WAIT")]
        if not any(blocks):
            yield
            return
        opened = self._socket()
        opened.settimeout(None if None in blocks else self._answers + sum(filter(None, blocks)))
        try:
            yield
        finally:
            opened.settimeout(self._answers)

    def request(self, commands: Sequence[Command]) -> bytes:
        """Send commands whose replies will be received as bytes. Returns the token for `receive`."""
        token = self.send_raw(*map(_packed, commands))
        self.sent += len(commands) + 1
        return token

    def send_raw(self, *data: Any) -> bytes:
        """Send commands that are already encoded. Returns the token for `receive`."""
        token = secrets.token_hex(16).encode()
        self._due.append(token)
        self._socket().sendall(b"".join((*data, b"*2\r\n$4\r\nECHO\r\n$32\r\n%b\r\n" % token)))
        return token

    def has_input(self) -> bool:
        """Return whether unread bytes have arrived."""
        return bool(self._ahead or select.select([self._socket()], [], [], 0)[0])

    def can_skip_replies(self) -> bool:
        """Return whether the server supports CLIENT REPLY SKIP. The server is asked once per link."""
        if self._skips is None:
            _, stop = self.receive(self.request([("CLIENT", "REPLY", "SKIP"), ("PING",)]))
            self._skips = stop == 0
        return self._skips

    def receive(self, token: bytes) -> tuple[bytearray, int]:
        """Return the replies to a request: a buffer, and the position in it where they end. The caller owns the
        buffer.
        """
        self.receive_due(token)
        return self._early.pop(token)

    def receive_due(self, token: bytes | None = None) -> None:
        """Receive outstanding replies up to this token, or all of them. `receive` returns them even after the link was
        closed.
        """
        while self._due and token not in self._early:
            self._early[self._due[0]] = self._receive(self._due[0])
            del self._due[0]  # only after success: otherwise the reply is still outstanding

    def _receive(self, token: bytes) -> tuple[bytearray, int]:
        end = b"$32\r\n%b\r\n" % token
        buffer, filled = bytearray(max(self._room, len(self._ahead))), len(self._ahead)
        buffer[:filled] = self._ahead
        searched = 0
        while True:
            if buffer.endswith(end, 0, filled):
                at = filled - len(end)
            elif len(self._due) > 1:  # a single reply has its token at the very end, so no search is needed
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
                raise LinkError(_CLOSED)
            filled += got


def _blocks(command: Command) -> float | None:
    """Return the seconds for which a command (XREAD, XREADGROUP, WAIT) may block: 0.0 if it does not, None if
    indefinitely.
    """
    if command[0] == "WAIT":
        ms = int(command[2])
        return ms / 1000 if ms else None
    begin, end = 4 if command[0] == "XREADGROUP" else 1, streams_at(command)
    if "BLOCK" not in command[begin:end]:
        return 0.0
    ms = int(command[command.index("BLOCK", begin, end) + 1])
    return ms / 1000 if ms else None
