"""What a replica and its master say to each other before data flow: lines in, commands out. No sockets, no time.

The replica speaks first: PING, AUTH where there is a password, REPLCONF about itself, then PSYNC with the history that
it has. Each command waits for the reply to the one before it. The master's last line says what follows on the
connection: all of its data (:class:`Full`), or the rest of the history (:class:`Continue`).
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field

_FULL = re.compile(rb"\+FULLRESYNC ([0-9a-f]{40}) (-?[0-9]{1,19})")
_CONTINUE = re.compile(rb"\+CONTINUE(?: ([0-9a-f]{40}))?")
#: Refusals of PING that only say that AUTH has to come first.
_UNKNOWN_YET = (b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted")
#: A line of a master is not longer than this.
LINE_LIMIT = 1024


class HandshakeError(Exception):
    """The master does not let this server follow it, now or at all; the text says why."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a replica says of itself. ``user`` and ``password`` may be empty; ``port`` 0 is not told."""

    user: bytes = b""
    password: bytes = field(default=b"", repr=False)
    port: int = 0
    address: bytes = b""
    capabilities: tuple[bytes, ...] = (b"eof", b"psync2")
    version: bytes = b""


@dataclass(frozen=True, slots=True)
class Full:
    """All data follow; what comes behind them begins after ``offset`` in the history ``id``."""

    id: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class Continue:
    """What comes behind the offset that was asked for follows. ``id``: the history is called so from there on."""

    id: bytes = b""


class Handshake:
    """One handshake. ``history`` is the ID and the first offset that is missing here; None: everything is.

    ``hands_over``: the other side is a replica that is told to lead from now on.
    """

    def __init__(
        self, introduction: Introduction, history: tuple[bytes, int] | None, *, hands_over: bool = False
    ) -> None:
        self._introduction = introduction
        self._history = history
        self._last = (b"FAILOVER",) if hands_over else ()
        #: PSYNC has been sent: what happens from then on is the answer to it.
        self.has_asked = False
        self._steps = self._run()
        #: What the master's last line means; None until it has come.
        self.outcome: Full | Continue | None = None

    def begin(self) -> bytes:
        """What to send first."""
        return next(self._steps)

    def line(self, line: bytes) -> bytes:
        """What to send after the master's line; nothing once there is an outcome. A HandshakeError where it refuses.

        An empty line says that the master is still there.
        """
        if not line:
            return b""
        try:
            return self._steps.send(line)
        except StopIteration:
            return b""

    def _run(self) -> Generator[bytes, bytes, None]:
        who = self._introduction
        line = yield command(b"PING")
        if not line.startswith((b"+", *_UNKNOWN_YET)):
            raise HandshakeError(_said("PING", line))
        if who.password:
            words = (who.user, who.password) if who.user else (who.password,)
            line = yield command(b"AUTH", *words)
            if not line.startswith(b"+"):
                raise HandshakeError(_said("AUTH (masteruser, masterauth)", line))
        # What a master does not know of these it may refuse.
        if who.port:
            yield command(b"REPLCONF", b"listening-port", b"%d" % who.port)
        if who.address:
            yield command(b"REPLCONF", b"ip-address", who.address)
        yield command(b"REPLCONF", *(word for one in who.capabilities for word in (b"capa", one)))
        if who.version:
            yield command(b"REPLCONF", b"version", who.version)
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
            raise HandshakeError(_said("PSYNC", line))


def command(*words: bytes) -> bytes:
    """The bytes of a command."""
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


def _said(what: str, line: bytes) -> str:
    return f"it answers {what} with '{line[:200].decode('utf-8', 'backslashreplace')}'"
