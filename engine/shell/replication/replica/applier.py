"""Applying the master's stream over one link: bytes arrive, commands run, acknowledgements are sent.

A pause (CLIENT PAUSE, or a shutdown that waits for replicas) holds the stream back like the commands of clients.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from engine.core.dispatch import Core, FatalError
from engine.core.formats.damage import DamagedError
from engine.shell.clock import now_us
from engine.shell.replication.history import History
from engine.shell.replication.replica.collaborators import Downstream, ReplicaHost
from engine.shell.replication.replica.handshake import command
from engine.shell.replication.replica.intake import Intake
from engine.shell.replication.replica.log_offset import LogOffset

#: Seconds after which the stream checks again whether a pause has ended.
_PAUSE_CHECK = 0.05


class ApplierOwner(Protocol):
    """Owner of the link."""

    def tell_master(self) -> None:
        """Send an acknowledgement, which the master has requested."""

    def limit_reading(self) -> None:
        """Decide again whether to read more bytes, after some were processed."""

    def lost(self, why: str) -> None:
        """Handle a link that a client has closed."""

    def refuse(self, why: str) -> None:
        """Stop following: the stream has something that the engine does not support."""


class Applier:
    """The stream of one link. It starts with database ``db`` selected; ``address``: the two addresses of the link."""

    def __init__(
        self,
        core: Core,
        process: ReplicaHost,
        downstream: Downstream,
        history: History,
        logged: LogOffset,
        owner: ApplierOwner,
        db: int,
        address: tuple[bytes, bytes],
    ) -> None:
        self._core = core
        self._process = process
        self._history = history
        self._logged = logged
        self._owner = owner
        self._is_due = self._is_over = False
        logged.clear()
        session = self._session = core.open_session(now_us())
        core.accounts.trust(session)
        session.is_master, session.db = True, db
        session.addr, session.laddr = address
        self.intake = Intake(core, session, history.offset, downstream.send)

    @property
    def db(self) -> int:
        """The database selected for the master's next command."""
        return self._session.db

    @property
    def is_closed_by_client(self) -> bool:
        """Whether a client has closed the connection (CLIENT KILL)."""
        return self._session.close_requested

    def feed(self, data: bytes) -> None:
        """Process bytes of the master."""
        self.intake.feed(data)
        if self._is_due:
            self._owner.limit_reading()
        else:
            self._work()

    def _work(self) -> None:
        """Apply some of the stream, and continue in the next event-loop iteration."""
        self._is_due = False
        if self._is_over or self._process.failed:
            return
        if self._core.pause.until > now_us() // 1000:
            self._is_due = True
            asyncio.get_running_loop().call_later(_PAUSE_CHECK, self._work)
            self._owner.limit_reading()
            return
        intake = self.intake
        try:
            intake.work()
        except DamagedError as error:
            self._settle()
            self._owner.refuse(f"at offset {error.offset} of the stream: {error.reason}")
            return
        except (FatalError, Exception) as error:  # noqa: BLE001 - the data may contain a half-done change
            self._process.fail(error)
            return
        self._settle()
        if self.is_closed_by_client:
            self._owner.lost("a client has closed the connection to the master")
            return
        if intake.is_asked:
            intake.is_asked = False
            self._owner.tell_master()
        if not intake.is_idle:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._work)
        self._owner.limit_reading()

    def _settle(self) -> None:
        self._process.settle()
        self._logged.note(self._core.durability, self._history.offset)

    def acknowledgement(self) -> bytes:
        """Return the acknowledgement: the offset in memory and, if there is a log, the offset on disk."""
        offset, durability = self._history.offset, self._core.durability
        words = [b"REPLCONF", b"ACK", b"%d" % offset]
        if durability.logging and (on_disk := self._logged.on_disk(durability, offset)) >= 0:
            words += [b"FACK", b"%d" % on_disk]
        return command(*words)

    def close(self) -> None:
        """Close the master's session: the link is down."""
        self._is_over = True
        self._core.close_session(self._session)
