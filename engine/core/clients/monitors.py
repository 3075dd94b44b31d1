"""The clients that receive the commands of all clients (MONITOR), and the format of the lines that they receive.

As in Redis, a command is shown after it has run, so the commands of a transaction precede its EXEC. Administrative
commands are not shown.
"""

from __future__ import annotations

from engine.core.clients.session import Outbox, Session
from engine.core.clients.telemetry import Telemetry
from engine.core.keyspace.changes import Changes
from engine.core.protocol.replies import Simple
from engine.core.table.registry import Command
from engine.text.command_lines import quoted, without_secrets


class Monitors:
    """All monitoring sessions of one core. Lines for them, with the time of ``changes``, are added to ``outbox``."""

    def __init__(self, telemetry: Telemetry, changes: Changes, outbox: Outbox) -> None:
        self._telemetry = telemetry
        self._changes = changes
        self._outbox = outbox
        self.sessions: dict[Session, None] = {}

    def add(self, session: Session) -> None:
        """Start sending the commands of all clients to the session."""
        session.monitor = True
        self.sessions[session] = None
        self._telemetry.see_all(wanted=True)

    def drop(self, session: Session) -> None:
        """Stop sending commands to the session."""
        session.monitor = False
        if session in self.sessions:
            del self.sessions[session]
            self._telemetry.see_all(wanted=bool(self.sessions))

    def show(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Show a command that ``session`` has run to all monitors."""
        if not command.flags & {"admin", "skip_monitor"}:
            words = b" ".join(map(quoted, without_secrets(argv)))
            seconds, micros = divmod(self._changes.now_us, 1_000_000)
            line = Simple(b"%d.%06d [%d %b] %b" % (seconds, micros, session.db, session.addr, words))
            self._outbox += [(monitor, line) for monitor in self.sessions]
