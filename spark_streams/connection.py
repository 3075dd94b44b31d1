"""One connection per process and server: small commands through redis-py, pages of frames as the bytes they are.

Owns sockets and nothing else. redis-py opens them (URLs, TLS, AUTH, SELECT) and parses small replies; a page is
received here, so that the codec gets it without a Python object per value. The protocol is RESP2 on purpose: its frames
are what the codec proves.

The end of a page is found without parsing it: behind each request an ECHO of a word goes out that nobody can know
beforehand, and the reply has arrived when that word has. A connection on which anything went wrong midway
is closed, never used again: what is left in it would be taken for the next reply.
"""

from __future__ import annotations

import os
import secrets
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.connection import ConnectionPool

from spark_streams.address import Address
from spark_streams.errors import error, fail

Command = tuple[bytes | str | int, ...]

_RECEIVE = 1 << 20
_IDLE_SECONDS = 30.0  # a kept connection that was not used for so long is tried with a PING first
_TIMEOUT_SECONDS = 60.0


class Connection:
    """A connection to one server."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.used = time.monotonic()
        self._skips: bool | None = None
        self._ahead = b""  # replies to a later request that came with those to an earlier one
        try:
            pool = ConnectionPool.from_url(
                address.url, protocol=2, decode_responses=False, socket_timeout=_TIMEOUT_SECONDS, max_connections=1
            )
            self._link: Any = pool.make_connection()
            self._link.connect()  # type: ignore[no-untyped-call, unused-ignore]
        except (redis.RedisError, OSError, ValueError) as cause:
            raise error("SERVER_UNREACHABLE", address=address.shown, reason=_reason(cause)) from None

    def close(self) -> None:
        self._link.disconnect()

    def send(self, commands: Sequence[Command]) -> None:
        self._link.send_packed_command(self._link.pack_commands(commands))

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """The replies of these commands; a server's error is the element in its place."""
        if not commands:
            return []
        self.send(commands)
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(self._link.read_response())
            except redis.ResponseError as refusal:
                replies.append(refusal)
        return replies

    def command(self, *words: bytes | str | int) -> Any:
        """One command's reply; its error is raised as SERVER_REFUSED."""
        (reply,) = self.pipeline([words])
        if isinstance(reply, redis.ResponseError):
            fail("SERVER_REFUSED", address=self.address.shown, command=words[0], reason=reply)
        return reply

    def request(self, commands: Sequence[Command]) -> bytes:
        """Send commands whose replies are to be received raw; gives the word that `receive` waits for."""
        word = secrets.token_hex(16).encode()
        self.send([*commands, ("ECHO", word)])
        return word

    def send_raw(self, data: Any) -> bytes:
        """As `request`, for commands that are bytes already."""
        word = secrets.token_hex(16).encode()
        socket = self._link._sock
        socket.sendall(data)
        socket.sendall(b"*2\r\n$4\r\nECHO\r\n$32\r\n%b\r\n" % word)
        return word

    def has_input(self) -> bool:
        """Whether something has arrived that was not received yet."""
        return bool(self._ahead) or bool(select.select([self._link._sock], [], [], 0)[0])

    def can_skip_replies(self) -> bool:
        """Whether the server knows CLIENT REPLY SKIP; it is asked once."""
        if self._skips is None:
            buffer, stop = self.receive(self.request([("CLIENT", "REPLY", "SKIP"), ("PING",)]))
            del buffer
            self._skips = stop == 0
        return self._skips

    def receive(self, word: bytes) -> tuple[bytearray, int]:
        """The replies to a request: a buffer, and where in it they end. The buffer is the caller's to keep."""
        end = b"$32\r\n%b\r\n" % word
        socket = self._link._sock
        buffer, filled = bytearray(_RECEIVE), len(self._ahead)
        buffer[:filled] = self._ahead
        searched = 0
        while True:
            at = buffer.find(end, searched, filled)
            if at >= 0:
                self._ahead = bytes(buffer[at + len(end) : filled])
                return buffer, at
            searched = max(0, filled - len(end))
            if filled == len(buffer):
                buffer += bytes(len(buffer))
            with memoryview(buffer) as view:
                got = socket.recv_into(view[filled:])
            if not got:
                raise redis.ConnectionError("the server closed the connection")
            filled += got


_kept: dict[tuple[int, str], Connection] = {}


@contextmanager
def borrow(address: Address) -> Iterator[Connection]:
    """The connection of this process to that server; it is kept for the next one unless the block fails.

    Failures of the connection come out as SERVER_UNREACHABLE. A connection that is borrowed already, by an iterator
    that was left unfinished, is not given twice.
    """
    key = (os.getpid(), address.url)
    connection = _kept.pop(key, None)
    if connection is not None and not _usable(connection):
        connection = None
    if connection is None:
        connection = Connection(address)
    try:
        yield connection
    except (redis.ConnectionError, redis.TimeoutError, OSError) as cause:
        connection.close()
        raise error("SERVER_UNREACHABLE", address=address.shown, reason=_reason(cause)) from cause
    except BaseException:
        connection.close()
        raise
    connection.used = time.monotonic()
    if key in _kept:
        connection.close()
    else:
        _kept[key] = connection


def close_all() -> None:
    """Close what this process keeps."""
    while _kept:
        _kept.popitem()[1].close()


def _usable(connection: Connection) -> bool:
    """Whether a kept connection can be used again; it is closed if not."""
    try:
        # Nothing is due on it: something to read is the server's farewell, or what nobody will ever ask for.
        rested = time.monotonic() - connection.used > _IDLE_SECONDS
        if not connection.has_input() and (not rested or connection.pipeline([("PING",)]) == [b"PONG"]):
            return True
    except (redis.RedisError, OSError):
        pass
    connection.close()
    return False


def _reason(cause: BaseException) -> str:
    return f"{cause}".rstrip(".") or type(cause).__name__
