"""The context of a command: the caller, the database, the time, and the destination of its effects.

One object serves all commands of a core, one after the other, so commands must not keep a reference to it. Effects are
deterministic commands for the log and the replicas: an empty core that runs all of them ends with the
same data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from engine.core.clients.accounts import Accounts
from engine.core.clients.pubsub import PubSub
from engine.core.clients.session import HasNews, Outbox, Queued, Session, Waiter
from engine.core.clients.sessions import Monitors, Pause, Sessions
from engine.core.clients.telemetry import Telemetry
from engine.core.environment.divided_commands import DividedCommands
from engine.core.environment.durability import Durability
from engine.core.environment.host import Host
from engine.core.environment.replication import Replication
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.database import Database
from engine.core.protocol.replies import BLOCKED, NIL_ARRAY, Reply, Several, Steps, at_once
from engine.core.streams.stream import Streams
from engine.settings.config import Config

#: Function that runs a command queued by MULTI and returns its replies.
RunQueued = Callable[[Session, Queued], "list[Reply | Several]"]


@dataclass(slots=True, kw_only=True, eq=False)
class Context:
    """The context of commands: caller, database and time, and the parts of the core that commands use."""

    # The call: these attributes change with every command.
    session: Session
    db: Database
    #: Current time in milliseconds since the epoch.
    now: int = 0
    #: Current time in microseconds since the epoch.
    now_us: int = 0
    #: The blocked command that is running again; None on a command's first run.
    retry: Waiter | None = None

    # The data.
    changes: Changes
    databases: list[Database]
    streams: Streams
    # The clients.
    sessions: Sessions
    accounts: Accounts
    pubsub: PubSub
    monitors: Monitors
    telemetry: Telemetry
    pause: Pause
    outbox: Outbox
    run_queued: RunQueued
    #: The divided commands that hold keys.
    divided: DividedCommands
    #: Whether the core's caller accepts `Steps` instead of a reply, and runs each step.
    allows_steps: bool = False
    # Settings, and interfaces to the outside of the core.
    config: Config
    host: Host = field(default_factory=Host)
    durability: Durability = field(default_factory=Durability)
    replication: Replication = field(default_factory=Replication)

    def enter(self, session: Session) -> None:
        """Switch to ``session`` at the current time."""
        self.session, self.db, self.retry = session, self.databases[session.db], None
        self.now, self.now_us = self.changes.now, self.changes.now_us

    def close(self, session: Session) -> None:
        """Close a client's connection; the caller of the current command receives its reply first."""
        if session is self.session:
            session.close_after_reply = True
        else:
            session.close_requested = True
            self.host.close(session)

    def effect(self, *argv: bytes) -> None:
        """Record an effect: a command that repeats the change on any core."""
        changes = self.changes
        if changes.recording:
            changes.effects.append((self.db.index, list(argv)))

    def in_steps(self, argv: list[bytes], work: Generator[None, None, Reply], *, is_apart: bool = False) -> Reply:
        """Run the command ``argv`` in the steps of ``work``; return its reply, or Steps if the first step was not all.

        Between its steps, the command holds its keys, unless ``is_apart``: the steps neither change keys nor read
        values that can change. If Steps are not possible, as in a transaction, run all steps now.
        """
        if self.session.in_exec or self.retry is not None or self.changes.replaying or not self.allows_steps:
            return at_once(work)
        is_started = not self.divided.images_wait
        if is_started:
            try:
                next(work)
            except StopIteration as end:
                return end.value
        steps = Steps(argv, work)
        steps.session, steps.now_us, steps.is_started = self.session, self.changes.now_us, is_started
        if not is_apart:
            self.divided.start(steps)
        return steps

    def block(
        self,
        argv: list[bytes],
        keys: list[bytes],
        timeout_ms: int,
        *,
        on_delete: bool = False,
        on_timeout: Reply = NIL_ARRAY,
        wake_at: int | None = None,
        has_news: HasNews | None = None,
        interest: bytes | None = None,
    ) -> Reply:
        """Block the client until one of ``keys`` is signalled, then run ``argv`` again.

        If ``timeout_ms`` is 0, the client waits indefinitely. In a transaction, or after the client has disconnected
        during a long command, do not block, and return ``on_timeout``.

        A command that runs again and blocks again keeps its position in the queue and its first deadline. At
        ``wake_at`` (milliseconds since the epoch), the command runs again even without a signal. ``has_news`` returns,
        for a key and its value, whether the command may succeed; its result must be the same for all waiters with the
        same ``interest``. `Waiter` describes ``on_delete``.
        """
        if self.session.in_exec or self.sessions.get(self.session.id) is None:
            return on_timeout
        if self.retry is None:
            deadline = self.now + timeout_ms if timeout_ms else None
            waiter = Waiter(self.session, argv, list(dict.fromkeys(keys)), deadline, on_timeout, on_delete)
            waiter.has_news, waiter.interest = has_news, interest
            self.session.waiter = waiter
            # Undo the count that follows: the call is counted when its reply is ready.
            self.session.calls -= 1
            self.db.waiting.add(waiter)
        else:
            waiter = self.retry
        waiter.retry_at = wake_at
        return BLOCKED
