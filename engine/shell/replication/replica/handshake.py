"""Handshake of a replica and its master, before data is sent: lines in, commands out. No sockets, no clock.

The replica starts: PING, AUTH if there is a password, REPLCONF about itself, then PSYNC with its history. Each command
waits for the reply to the previous one. The master's last line announces what it sends next: all of its data (`Full`),
or the rest of the history (`Continue`).
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field

_FULL = re.compile(rb"\+FULLRESYNC ([0-9a-f]{40}) (-?[0-9]{1,19})")
_CONTINUE = re.compile(rb"\+CONTINUE(?: ([0-9a-f]{40}))?")
#: Errors of PING that only mean that AUTH is required first.
_UNKNOWN_YET = (b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted")
#: Maximum length of a master's line in bytes.
LINE_LIMIT = 1024


class HandshakeError(Exception):
    """The master rejects this server as a replica, temporarily or permanently; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """A replica's information about itself. ``user`` and ``password`` may be empty; ``port`` 0 is not sent."""

    user: bytes = b""
    password: bytes = field(default=b"", repr=False)
    port: int = 0
    address: bytes = b""
    #: Any version of RDB (``rdb-any``) and the engine's own format (``psb``) are capabilities that only engines have.
    capabilities: tuple[bytes, ...] = (b"eof", b"psync2", b"rdb-any", b"psb")
    version: bytes = b""


@dataclass(frozen=True, slots=True)
class Full:
    """The master sends all data, then the stream after ``offset`` in the history ``id``."""

    id: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class Continue:
    """The master sends the stream from the requested offset on. ``id``: new ID of the history; empty if the ID does not
    change.
    """

    id: bytes = b""


class Handshake:
    """One handshake. ``history``: ID of the history and number of the first missing byte; None if all data is missing.

    ``hands_over``: the other server is a replica that is to become the master.
    """

    def __init__(
        self, introduction: Introduction, history: tuple[bytes, int] | None, *, hands_over: bool = False
    ) -> None:
        self._introduction = introduction
        self._history = history
        self._last = (b"FAILOVER",) if hands_over else ()
        #: Whether PSYNC has been sent: any later failure is a failure of PSYNC.
        self.has_asked = False
        self._steps = self._run()
        #: Result of the handshake; None until the master's last line.
        self.outcome: Full | Continue | None = None

    def start(self) -> bytes:
        """Return the first bytes to send."""
        return next(self._steps)

    def line(self, line: bytes) -> bytes:
        """Return the bytes to send after the master's line; empty if the line has set the outcome. Raises
        HandshakeError if the master rejects this server.

        An empty line is a keepalive.
        """
        if not line:
            return b""
        try:
            return self._steps.send(line)
        except StopIteration:
            return b""

    def _run(self) -> Generator[bytes, bytes, None]:
        introduction = self._introduction
        line = yield command(b"PING")
        if not line.startswith((b"+", *_UNKNOWN_YET)):
            raise HandshakeError(_rejection("PING", line))
        if introduction.password:
            words = (introduction.user, introduction.password) if introduction.user else (introduction.password,)
            line = yield command(b"AUTH", *words)
            if not line.startswith(b"+"):
                raise HandshakeError(_rejection("AUTH (masteruser, masterauth)", line))
        # Replies to REPLCONF are ignored, because a master may reject options that it does not support.
        if introduction.port:
            yield command(b"REPLCONF", b"listening-port", b"%d" % introduction.port)
        if introduction.address:
            yield command(b"REPLCONF", b"ip-address", introduction.address)
        yield command(
            b"REPLCONF", *(word for capability in introduction.capabilities for word in (b"capa", capability))
        )
        if introduction.version:
            yield command(b"REPLCONF", b"version", introduction.version)
        history, offset = self._history or (b"?", -1)
        self.has_asked = True
        self._conclude((yield command(b"PSYNC", history, b"%d" % offset, *self._last)))

    def _conclude(self, line: bytes) -> None:
        full, goes_on = _FULL.fullmatch(line), _CONTINUE.fullmatch(line)
        if full:
            self.outcome = Full(full[1], int(full[2]))
        elif goes_on and self._history is not None:
            self.outcome = Continue(goes_on[1] or b"")
        else:
            raise HandshakeError(_rejection("PSYNC", line))


def command(*words: bytes) -> bytes:
    """Return the bytes of a command."""
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


def _rejection(request: str, line: bytes) -> str:
    return f"the master replied to {request} with '{line[:200].decode('utf-8', 'backslashreplace')}'"
