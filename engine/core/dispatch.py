"""The core as a whole: takes one command at a time, gives its reply, its effects, and what others are to be told.

The shell calls :meth:`Core.execute` and then delivers three things: the reply; :attr:`Core.outbox`, replies and
messages for other sessions, in order (clients woken by the command, subscribers, monitors); and :attr:`Core.effects`,
for the log. It tells the core what only it can know: the time, that a waiting client's time has come
(:meth:`Core.wake`), that it has gone (:meth:`Core.close_session`).

If the order of the checks below is changed, error replies stop being Redis's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.core import commands as _commands  # noqa: F401  (fills the table)
from engine.core.bulk_add import Added, Run, add_run
from engine.core.clients.accounts import Accounts
from engine.core.clients.monitors import Monitors
from engine.core.clients.pubsub import PubSub
from engine.core.clients.session import Session
from engine.core.clients.telemetry import Telemetry
from engine.core.commands.server.client import describe
from engine.core.keyspace.database import Database, type_name
from engine.core.keyspace.waiters import Waiter
from engine.core.protocol.replies import BLOCKED, QUEUED, CommandError, Reply, Several
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream
from engine.core.table.context import Context
from engine.core.table.durability import Durability, InMemory
from engine.core.table.registry import COMMANDS, Command
from engine.settings.config import Config
from engine.text import messages

#: Later than any time.
NEVER = 1 << 63
#: What runs at once inside MULTI instead of being queued.
_NOT_QUEUED = {"exec", "discard", "multi", "watch", "quit", "reset"}
#: What a RESP2 client may still call once it has subscribed.
_IN_SUBSCRIPTION = {
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "ping",
    "quit",
    "reset",
}


def look_up(argv: list[bytes]) -> Command:
    """The declaration of the command that ``argv`` calls; a CommandError where there is none, or the arity is wrong."""
    command = COMMANDS.get(argv[0]) or COMMANDS.get(argv[0].upper())
    if command is None:
        raise CommandError(messages.unknown_command(argv))
    if command.subcommands and len(argv) > 1:
        sub = command.subcommands.get(argv[1].upper())
        if sub is None:
            raise CommandError(messages.unknown_subcommand(command.full_name, argv[1]))
        command = sub
    # As Command.arity_fits, without the call.
    arity = command.arity
    if arity != len(argv) and (arity >= 0 or len(argv) < -arity):
        raise CommandError(messages.wrong_arity(command.full_name))
    return command


class Core:
    """All state of one server. ``pick(n)`` draws a number in 0 .. n-1; it is the only source of chance."""

    # Slots, because an object with more than thirty attributes of its own is read more slowly (CPython 3.11 and 3.12).
    __slots__ = (
        "_ctx",
        "_last_session_id",
        "accounts",
        "commands_processed",
        "config",
        "databases",
        "dirty",
        "durability",
        "effects",
        "error_stats",
        "expired_keys",
        "expires_actively",
        "facts",
        "idempotent",
        "measured_ns",
        "memory_full",
        "monitors",
        "next_expiry",
        "now",
        "now_us",
        "outbox",
        "paused_until",
        "pauses_all",
        "pick",
        "pubsub",
        "ready",
        "recording",
        "refuse_writes",
        "replaying",
        "requests",
        "serve_later",
        "sessions",
        "stopwatch",
        "storage",
        "telemetry",
        "watchers",
    )

    def __init__(self, config: Config, pick: Callable[[int], int]) -> None:
        self.config = config
        self.pick = pick
        self.now = 0
        self.now_us = 0
        self.databases: list[Database] = []
        self.storage = Storage()
        for name in ("stream-node-max-bytes", "stream-node-max-entries"):
            config.on_change(name, self._limit_nodes)
        self._limit_nodes()
        self.databases = [Database(index, self) for index in range(config.integer("databases"))]
        self.sessions: dict[int, Session] = {}
        self.accounts = Accounts(self, describe)
        self.pubsub = PubSub(self)
        self.monitors = Monitors(self)
        self.telemetry = Telemetry(config)
        #: Nanoseconds that go by, for measuring how long commands take; and what it said when the last one ended, or
        #: when the turn began: the shell sets that.
        self.stopwatch: Callable[[], int] = int
        self.measured_ns = 0
        #: (database, key) -> sessions that watch it.
        self.watchers: dict[tuple[int, bytes], set[Session]] = {}
        #: Signalled keys that somebody waits for, in order.
        self.ready: dict[tuple[int, bytes], None] = {}
        #: Those whom a command wakes are served later, by whoever set this: more of the kind is about to come.
        self.serve_later = False
        #: (session, reply) for others than the caller.
        self.outbox: list[tuple[Session, Reply]] = []
        #: (database, argv) of what happened, if ``recording``; bytes instead of argv are whole commands, encoded
        #: already.
        self.effects: list[tuple[int, list[bytes] | bytes]] = []
        self.recording = False
        #: Effects of another time are being run: no key expires by itself, because the log says when it went.
        self.replaying = False
        #: Keys go when their time has come, and not only when somebody asks for them.
        self.expires_actively = True
        #: No key expires before this time (milliseconds since the epoch): when the shell is to call expire_due.
        self.next_expiry = NEVER
        #: Until when, in milliseconds since the epoch, CLIENT PAUSE holds commands back, and whether all or only
        #: writes.
        self.paused_until = 0
        self.pauses_all = False
        #: Requests to the shell: ("shutdown", flags) and the like, drained by it.
        self.requests: list[tuple[str, Any]] = []
        #: Who keeps the data on a disk.
        self.durability: Durability = InMemory()
        #: The error reply to commands that write, while the disk does not take what they do; empty: they are run.
        self.refuse_writes = b""
        #: The process uses more memory than it may: commands that need more are refused. The shell measures it.
        self.memory_full = False
        #: Facts that the shell puts in for INFO and its like.
        self.facts: dict[str, Any] = {}
        #: Streams that remember idempotent IDs.
        self.idempotent: dict[Stream, None] = {}
        self.dirty = 0
        self.expired_keys = 0
        self.commands_processed = 0
        self.error_stats: dict[bytes, int] = {}
        self._last_session_id = 0
        self._ctx = Context(self, Session(0, 0))

    def _limit_nodes(self) -> None:
        """Follow the two directives; what is in a stream already keeps the nodes that it has."""
        for db in self.databases:
            for _, value, _ in db.items():
                if isinstance(value, Stream):
                    value.node_extents()
        self.storage.limits.max_bytes = self.config.integer("stream-node-max-bytes")
        self.storage.limits.max_entries = self.config.integer("stream-node-max-entries")

    # -- sessions ---------------------------------------------------------------------------------------------------

    def open_session(self, now_us: int) -> Session:
        """A new client."""
        self._last_session_id += 1
        session = Session(self._last_session_id, now_us // 1000)
        if self.replaying:
            self.accounts.trust(session)
        else:
            self.accounts.greet(session)
        self.sessions[session.id] = session
        return session

    def close(self, session: Session) -> None:
        """Have the shell close a client's connection; the caller of the present command gets its reply before that."""
        if session is self._ctx.session:
            session.close_after_reply = True
        else:
            session.close_requested = True
            self.requests.append(("kill", session))

    def close_session(self, session: Session) -> None:
        """The client has gone: nothing waits, watches or listens for it any more."""
        self.sessions.pop(session.id, None)
        self.cancel_wait(session)
        self.unwatch(session)
        self.pubsub.drop(session)
        self.monitors.drop(session)

    def unwatch(self, session: Session) -> None:
        """Forget what the session watches."""
        for pair in session.watching:
            watchers = self.watchers.get(pair)
            if watchers is not None:
                watchers.discard(session)
                if not watchers:
                    del self.watchers[pair]
        session.watching.clear()
        session.dirty_exec = False

    # -- commands ---------------------------------------------------------------------------------------------------

    def set_time(self, now_us: int) -> None:
        """The time of what comes next, in microseconds since the epoch."""
        self.now_us = now_us
        self.now = now_us // 1000

    def execute(self, session: Session, argv: list[bytes], now_us: int) -> Reply:
        """Run one command of ``session`` (or queue it, in a transaction), then serve those whom it woke.

        Returns the reply, a CommandError for an error, BLOCKED where the client now waits. ``argv`` is not empty.
        """
        self.now_us = now_us
        self.now = session.last_ms = now_us // 1000
        try:
            command = look_up(argv)
        except CommandError as error:
            return self._refused(session, argv, error)
        if (
            session.limited
            or session.monitor
            or session.channels
            or session.patterns
            or self.memory_full
            or self.refuse_writes
        ):
            # (Only then can the check refuse anything.)
            try:
                self.check(session, command, argv)
            except CommandError as error:
                self.telemetry.stat(command.full_name).rejected += 1
                return self._refused(session, argv, error)
        if session.multi is not None and command.name not in _NOT_QUEUED:
            session.multi.append((command, argv))
            return QUEUED
        session.last_command = command.full_name
        first = len(self.effects)
        reply = self.call(session, command, argv)
        if self.recording:
            self.seal_effects(first)
        if self.ready and not self.serve_later:
            self.serve_waiters()
        return reply

    def _refused(self, session: Session, argv: list[bytes], error: CommandError) -> CommandError:
        """The reply to a command that never ran; the transaction that it stands in cannot run either."""
        if argv[0].upper() == b"EXEC":
            session.multi, session.multi_failed = None, False
            self.unwatch(session)
            error = CommandError(messages.exec_refused(error.text))
        elif session.multi is not None:
            session.multi_failed = True
        self.count_error(error)
        return error

    def execute_run(self, session: Session, run: Run, now_us: int) -> Sequence[bytes] | None:
        """Run many XADDs at once, or queue them in a transaction; their replies as bytes. None: nothing was done.

        Those who wait get what the run adds together. Declined where each command must be seen by itself, as by
        subscribers to keyspace events.
        """
        self.now_us = now_us
        self.now = session.last_ms = now_us // 1000
        if self.pubsub.keyspace_events or self.refuse_writes or self.memory_full or self.telemetry.wants_each:
            return None
        if session.limited and not self._may_add(session, run):
            return None
        if session.proto == 2 and (session.channels or session.patterns):
            return None
        session.last_command = b"xadd"
        if session.multi is not None:
            session.multi.append((COMMANDS[b"XADD"], run))
            return [b"+QUEUED\r\n" * run.count]
        first = len(self.effects)
        added = self._add_run(session, run)
        if added is None:
            return None
        if self.recording:
            self.seal_effects(first)
        if self.ready:
            self.serve_waiters()
        return added.pieces()

    def _may_add(self, session: Session, run: Run) -> bool:
        """Whether a limited session may do a run: each of its keys is looked at once."""
        keys = [run.head[1]] if run.keys is None else [word[word.index(b"\n") + 1 : -2] for word in set(run.keys)]
        adds = ([b"XADD", key, b"*", b"field", b"value"] for key in keys)
        return self.accounts.may_call(session, COMMANDS[b"XADD"], adds)

    def _add_run(self, session: Session, run: Run) -> Added | None:
        ctx = self._ctx
        ctx.session, ctx.db, ctx.retry = session, self.databases[session.db], None
        ctx.now, ctx.now_us = self.now, self.now_us
        added = add_run(ctx, run)
        if added is not None:
            end = self.stopwatch()
            spent = max(end - self.measured_ns, 0)
            self.measured_ns = end
            self.telemetry.stat(b"xadd").add_run(run.count, spent)
            if spent >= self.telemetry.threshold_ns * run.count:
                self.telemetry.note(session, COMMANDS[b"XADD"], next(run.commands()), spent // run.count, self.now)
        return added

    def call_run(self, session: Session, run: Run) -> list[Reply | Several]:
        """Do a run that was queued: the replies of its commands."""
        seen = self.pubsub.keyspace_events or self.telemetry.wants_each
        quick = not (seen or (session.limited and not self._may_add(session, run)))
        added = self._add_run(session, run) if quick else None
        if added is not None:
            return [Several(run.count, added.pieces())]
        return [self.call_late(session, COMMANDS[b"XADD"], argv) for argv in run.commands()]

    def call_late(self, session: Session, command: Command, argv: list[bytes], retry: Waiter | None = None) -> Reply:
        """Run a command that was queued, or waited: what the user may do can have changed since it came."""
        if session.limited:
            try:
                self.accounts.check(session, command, argv)
            except CommandError as error:
                self.count_error(error)
                return error
        return self.call(session, command, argv, retry)

    def check(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Whether the session may call it now; a CommandError if not."""
        if session.limited:
            self.accounts.check(session, command, argv)
        if self.memory_full and not self.replaying and _needs_memory(session, command):
            raise CommandError(messages.OUT_OF_MEMORY)
        if self.refuse_writes and _may_write(session, command):
            raise CommandError(self.refuse_writes)
        if session.proto == 2 and (session.channels or session.patterns) and command.name not in _IN_SUBSCRIPTION:
            raise CommandError(messages.in_subscription(command.full_name))
        if session.monitor and (command.writes or "readonly" in command.flags):
            raise CommandError(messages.MONITOR_WITHOUT_KEYS)

    def call(self, session: Session, command: Command, argv: list[bytes], retry: Waiter | None = None) -> Reply:
        """Run a command that has passed its checks; an error comes back as a value."""
        ctx = self._ctx
        ctx.session = session
        ctx.db = self.databases[session.db]
        ctx.now = self.now
        ctx.now_us = self.now_us
        ctx.retry = retry
        self.commands_processed += 1
        telemetry = self.telemetry
        stat = telemetry.stats.get(command.full_name) or telemetry.stat(command.full_name)
        reply: Reply
        try:
            reply = command.handler(ctx, argv)
        except CommandError as error:
            self.count_error(error)
            stat.failed += 1
            reply = error
        end = self.stopwatch()
        spent = end - self.measured_ns
        self.measured_ns = end
        stat.ns += spent
        # (A clock that was set back makes it negative.)
        stat.buckets[spent.bit_length()] += 1
        if spent >= telemetry.threshold_ns:
            telemetry.note(session, command, argv, spent, self.now)
            if self.monitors.sessions and retry is None:
                self.monitors.show(session, command, argv)
        return reply

    def count_error(self, error: CommandError) -> None:
        """Count an error reply by its code, for INFO errorstats."""
        code = error.text.partition(b" ")[0]
        self.error_stats[code] = self.error_stats.get(code, 0) + 1

    # -- effects ----------------------------------------------------------------------------------------------------

    def record(self, db: int, argv: list[bytes]) -> None:
        """Add an effect that no command's context could."""
        if self.recording:
            self.effects.append((db, argv))

    def seal_effects(self, first: int) -> None:
        """Several effects of one command happen together or not at all."""
        if len(self.effects) - first > 1:
            self.effects.insert(first, (self.effects[first][0], [b"MULTI"]))
            self.effects.append((self.effects[-1][0], [b"EXEC"]))

    def notify(self, kind: str, event: bytes, key: bytes, db: int) -> None:
        """Tell subscribers of keyspace events. ``kind`` is the letter of notify-keyspace-events."""
        if self.pubsub.keyspace_events:
            self.pubsub.keyspace_event(kind, event, key, db)

    # -- waiting ----------------------------------------------------------------------------------------------------

    def serve_waiters(self) -> None:
        """Run the commands of those whose keys were signalled, first come first; what they find goes to the outbox."""
        while self.ready:
            signalled, self.ready = self.ready, {}
            for index, key in signalled:
                db = self.databases[index]
                nothing_for: set[bytes | None] = set()
                for waiter in db.waiting.waiting_for(key):
                    if waiter.session.waiter is not waiter or waiter.interest in nothing_for:
                        continue
                    if self._concerns(waiter, key, db.get(key)):
                        self._retry(waiter)
                    elif waiter.interest is not None:
                        nothing_for.add(waiter.interest)

    @staticmethod
    def _concerns(waiter: Waiter, key: bytes, value: Any) -> bool:
        if value is not None and type_name(value) == waiter.type_name:
            return waiter.has_news is None or waiter.has_news(key, value)
        return waiter.on_delete

    def _retry(self, waiter: Waiter) -> None:
        session = waiter.session
        first = len(self.effects)
        wake_at = waiter.wake_at
        try:
            reply = self.call_late(session, look_up(waiter.argv), waiter.argv, waiter)
        except Exception as error:  # noqa: BLE001 - whoever woke it, and the others who wait, are not to suffer from it
            reply = CommandError(messages.INTERNAL_ERROR)
            self.requests.append(("failed", error))
        if self.recording:
            self.seal_effects(first)
        if reply is not BLOCKED:
            self.cancel_wait(session)
            self.outbox.append((session, reply))
        elif waiter.wake_at != wake_at:
            self.requests.append(("wake", session))

    def cancel_wait(self, session: Session) -> None:
        """The session no longer waits."""
        waiter = session.waiter
        if waiter is not None:
            session.waiter = None
            self.databases[waiter.db].waiting.remove(waiter)

    def time_out(self, session: Session) -> None:
        """The session's deadline has passed: it gets the reply of its command for that."""
        waiter = session.waiter
        if waiter is not None:
            self.cancel_wait(session)
            self.outbox.append((session, waiter.on_timeout))

    def wake(self, session: Session, now_us: int) -> None:
        """The time that the session's waiter named (:attr:`engine.core.keyspace.waiters.Waiter.wake_at`) has come.

        It times out, or its command runs anew; in that case there may be a new time to wake it.
        """
        self.set_time(now_us)
        waiter = session.waiter
        if waiter is None:
            return
        if waiter.deadline is not None and waiter.deadline <= self.now:
            self.time_out(session)
        else:
            self._retry(waiter)
            if self.ready:
                self.serve_waiters()

    def blocked(self) -> Iterable[Session]:
        """The sessions that wait."""
        return [session for session in self.sessions.values() if session.waiter is not None]

    # -- time -------------------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> None:
        """About once a second: forget what idempotent producers sent too long ago."""
        self.set_time(now_us)
        for stream in list(self.idempotent):
            assert stream.producers is not None
            stream.producers.expire(self.now)
            if not stream.producers.by_producer:
                del self.idempotent[stream]

    def expire_due(self, now_us: int, limit: int = 1000) -> int:
        """Drop keys whose time has come, at most about ``limit``, and serve those who waited on them; how many."""
        self.set_time(now_us)
        dropped = 0
        if not self.expires_actively:
            self.next_expiry = NEVER
            return 0
        for db in self.databases:
            if dropped < limit:
                dropped += db.expire_due(self.now, limit - dropped)
        if self.ready:
            self.serve_waiters()
        deadlines = (db.next_deadline() for db in self.databases)
        self.next_expiry = min((deadline for deadline in deadlines if deadline is not None), default=NEVER)
        return dropped


def _may_write(session: Session, command: Command) -> bool:
    """Whether the command is refused while writing is: EXEC for what is queued, and PING, to tell checks of health."""
    if command.name == "exec":
        return any(queued.writes for queued, _ in session.multi or ())
    return command.writes or command.name == "ping"


def _needs_memory(session: Session, command: Command) -> bool:
    """Whether the command is refused while there is no memory: in a transaction all are but those that end it."""
    if command.name == "exec":
        return any("denyoom" in queued.flags for queued, _ in session.multi or ())
    return "denyoom" in command.flags or (session.multi is not None and command.name not in _NOT_QUEUED)
