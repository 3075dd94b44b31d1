"""Intake of the master's stream: bytes arrive, commands run on the core, in small steps.

The bytes are passed on to the history unchanged, so that this server's replicas receive the same bytes at the same
offsets. They are passed on after their commands have run, and those of a transaction after EXEC. The offset of the
bytes passed on is this server's position, from which it continues after a broken link.

While the commands run, the core is in replay mode: no key expires by itself, and no command is rejected for lack of
memory. Clients that wait for a key are served afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError
from engine.shell.clock import now_us
from engine.shell.durability.recovery import Commands, as_written
from engine.wire.bulk import Scanner

#: Maximum number of bytes to parse at a time.
_PIECE = 1 << 16
#: Microseconds of work per event-loop iteration.
_SHARE_US = 2000
#: Number of commands that run between two looks at the clock.
_AT_ONCE = 16
#: Minimum size of input that is searched for a pipeline of XADDs.
_PIPELINE = 256
_NOTHING: Any = object()


class Intake:
    """Stream of one link, from ``offset`` of the history on, with database ``db`` selected.

    ``address``: the two addresses of the link. ``pass_on`` is called with the bytes of commands that have run.
    """

    def __init__(
        self,
        core: Core,
        offset: int,
        pass_on: Callable[[bytes], None],
        db: int = 0,
        address: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        self._core = core
        session = self._session = core.open_session(now_us())
        core.accounts.trust(session)
        session.is_master, session.db = True, db
        session.addr, session.laddr = address
        self._pass_on_bytes = pass_on
        self._commands = Commands(core, session, 0)
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._scanner = Scanner()
        #: Bytes to parse.
        self._pieces: deque[bytes] = deque()
        #: Number of bytes in the reader.
        self._unread = 0
        #: Whether all complete commands received so far have run.
        self.is_idle = True
        #: Offset of the end of the commands that have run.
        self._position = offset
        #: Offset of the end of the bytes passed on.
        self._passed = offset
        #: Bytes that arrived and were not passed on.
        self._raw: deque[bytes] = deque()
        #: Number of bytes waiting to be parsed.
        self.waiting = 0
        #: Whether the master has requested an acknowledgement.
        self.is_asked = False

    @property
    def db(self) -> int:
        """The database selected for the master's next command."""
        return self._session.db

    @property
    def is_closed_by_client(self) -> bool:
        """Whether a client has closed the connection (CLIENT KILL)."""
        return self._session.close_requested

    def close(self) -> None:
        """Close the master's session: the link is down."""
        self._core.close_session(self._session)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._raw.append(data)
        self.waiting += len(data)
        self.is_idle = False
        if len(data) <= _PIECE:
            self._pieces.append(data)
        else:
            self._pieces += [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]

    def work(self) -> None:
        """Run commands for about two milliseconds. Afterwards, `is_idle` shows whether commands are left.

        Raises DamagedError if a command fails, or the bytes are not commands.
        """
        core, changes, now = self._core, self._core.changes, now_us()
        core.telemetry.measured_ns = now * 1000
        self._commands.now_us = now
        changes.replaying = core.serve_later = True
        try:
            while not self.is_idle and now_us() - now < _SHARE_US:
                for _ in range(_AT_ONCE):
                    self._take_one()
        finally:
            changes.replaying = core.serve_later = False
            self._pass_on()
        if changes.ready:
            core.serve()

    # -- commands -----------------------------------------------------------------------------------------------------

    def _take_one(self) -> None:
        """Run the next command, or add the next piece to the reader."""
        try:
            argv = self._reader.gets()
            if argv is _NOTHING:
                if self._pieces:
                    self._take_piece(self._pieces.popleft())
                else:
                    self.is_idle = True
                return
            size = len(as_written(argv))
        except (hiredis.ProtocolError, TypeError):
            raise DamagedError(self._position, "this is not a command") from None
        if argv[0].upper() == b"REPLCONF":
            self.is_asked = True
        else:
            self._commands.apply(argv, self._position)
        self._position += size
        self._unread -= size

    def _take_piece(self, piece: bytes) -> None:
        """Add a piece to the reader; a pipeline of XADDs at its start is run in one operation."""
        core = self._core
        self.waiting -= len(piece)
        if not self._unread and not self._commands.in_transaction and len(piece) >= _PIPELINE:
            run = self._scanner.scan(piece) if not core.divided.running else None
            if run is not None and core.execute_run(self._session, run, self._commands.now_us) is not None:
                self._commands.count += run.count
                self._position += run.end
                piece = piece[run.end :]
        if piece:
            self._reader.feed(piece)
            self._unread += len(piece)

    # -- passing on --------------------------------------------------------------------------------------------------

    def _pass_on(self) -> None:
        """Pass on the bytes of commands that have run."""
        done = self._commands.began if self._commands.in_transaction else self._position
        left = done - self._passed
        self._passed = max(done, self._passed)
        while left > 0:
            block = self._raw.popleft()
            if len(block) > left:
                self._raw.appendleft(block[left:])
                block = block[:left]
            left -= len(block)
            self._pass_on_bytes(block)
