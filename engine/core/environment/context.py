"""The context of a command: the caller, the database, the time, and the destination of its effects.

It is the core itself (`engine.core.dispatch.Core`) as commands see it, so commands must not keep a reference to it, and
find the caller and the time here only while they run. Effects are
deterministic commands for the log and the replicas: an empty core that runs all of them ends with the
same data.
"""

from __future__ import annotations

from collections.abc import Generator

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


class Context:
    """The context of commands: caller, database and time, and the parts of the core that commands use."""

    #: The divided commands that hold keys.
    divided: DividedCommands

    def __init__(self, config: Config) -> None:
        self.config = config
        # The data.
        self.changes = changes = Changes()
        self.databases = [Database(index, changes) for index in range(config.integer("databases"))]
        self.streams = Streams(config)
        # The clients.
        #: Replies and messages for sessions other than the caller's.
        self.outbox: Outbox = []
        self.sessions = Sessions(self.databases, self.outbox)
        self.accounts = Accounts(config, changes, self.sessions, self.close)
        self.pubsub = PubSub(config, changes, self.outbox)
        self.telemetry = Telemetry(config)
        self.monitors = Monitors(self.telemetry, changes, self.outbox)
        self.pause = Pause()
        # The call: these attributes change with every command.
        self.session = Session(0, 0)
        self.db = self.databases[0]
        #: Current time in milliseconds since the epoch.
        self.now = 0
        #: Current time in microseconds since the epoch.
        self.now_us = 0
        #: The blocked command that is running again; None on a command's first run.
        self.retry: Waiter | None = None
        #: Whether the core's caller accepts `Steps` instead of a reply, and runs each step.
        self.allows_steps = False
        # Interfaces to the outside of the core.
        self.host = Host()
        self.durability = Durability()
        self.replication = Replication()

    def run_queued(self, session: Session, queued: Queued) -> list[Reply | Several]:
        """Execute a queued command, or a queued run of XADDs.

        Return one reply per command, or one `Several` with all replies.
        """
        raise NotImplementedError

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
