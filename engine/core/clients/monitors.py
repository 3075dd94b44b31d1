"""The clients that see every command (MONITOR): who they are, and the line that they are sent.

A command is shown once it has run, as Redis does, so the parts of a transaction come before its EXEC. Commands of
administration are not shown.
"""

from __future__ import annotations

from engine.core.clients.session import Outbox, Session
from engine.core.clients.telemetry import Telemetry
from engine.core.keyspace.changes import Changes
from engine.core.protocol.replies import Simple
from engine.core.table.registry import Command
from engine.text.shown import quoted, without_secrets


class Monitors:
    """All monitoring sessions of one core. What they see goes to ``outbox``, with the time of ``changes``."""

    def __init__(self, telemetry: Telemetry, changes: Changes, outbox: Outbox) -> None:
        self._telemetry = telemetry
        self._changes = changes
        self._outbox = outbox
        self.sessions: dict[Session, None] = {}

    def add(self, session: Session) -> None:
        """The session sees every command from now on."""
        session.monitor = True
        self.sessions[session] = None
        self._telemetry.see_all(wanted=True)

    def drop(self, session: Session) -> None:
        """The session sees commands no longer."""
        session.monitor = False
        if session in self.sessions:
            del self.sessions[session]
            self._telemetry.see_all(wanted=bool(self.sessions))

    def show(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Show all of them a command that ``session`` has run."""
        if not command.flags & {"admin", "skip_monitor"}:
            self.show_words(session, argv)

    def show_words(self, session: Session, argv: list[bytes]) -> None:
        """Show all of them the words of a command, whatever it is."""
        words = b" ".join(map(quoted, without_secrets(argv)))
        seconds, micros = divmod(self._changes.now_us, 1_000_000)
        line = Simple(b"%d.%06d [%d %b] %b" % (seconds, micros, session.db, session.addr, words))
        self._outbox += [(one, line) for one in self.sessions]
