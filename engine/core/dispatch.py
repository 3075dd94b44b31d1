"""Execution of commands, one at a time. Each produces a reply, effects, and messages for other clients.

The shell calls ``Core.execute`` and then delivers three results: the reply, the messages in ``Core.outbox`` for other
sessions, in order, and the effects in ``Core.changes`` for the log. Other sessions are those of clients woken by the
command, subscribers and monitors. The shell supplies the time, calls ``Core.wake`` when a blocked client's wake time is
reached, and calls ``Core.close_session`` for a closed connection.

If a method raises an exception, usually `FatalError`, the core must not be used again. The effects of the command that
failed are dropped; all remaining effects are complete.

`engine.core.admission` decides whether a command may run. Its handler gets the core as a context, the part of the core
that commands use (`engine.core.environment.context.Context`). There are two ways to run commands. `Core._call` handles
errors, time and statistics: for a client's command (`Core.execute`), for each command that MULTI has queued, for a
blocked command whose key was signalled or whose time has come (`Core.serve`, `Core.wake`), and for the next step of a
long command (`Core.go_on`). Around it, `Core._run` handles effects and fatal errors; `execute` inlines it.
`Core._add_run` adds a run of XADDs.

When a key is signalled, the commands blocked on it run again, in the order in which their clients blocked. Each command
either returns a reply, which goes to the outbox, or keeps its position in the queue.

After an unexpected error in a command, that is, any exception except CommandError, the handler may have made only some
of its changes, and in general they cannot be undone. The consequences depend on the state that the command can change:

* If the command only reads, nothing is inconsistent: the client receives an error, and the server continues. Keys that
  expired during the command are removed completely, and the log receives these deletions.
* If the command changes only the state of its own client (AUTH, SUBSCRIBE, SELECT), the client receives an error. Its
  connection is closed, which discards its state.
* All other commands (writing commands, EXEC, and administrative commands that change something) may have left data,
  users, settings or files inconsistent. A ``FatalError`` is raised to the process, which stops. The command's effects
  are dropped.
* Errors in the expiry of a key raise a ``FatalError`` even if the command only reads.

Exceptions outside a handler, such as in the search for blocked clients to serve, reach the process unchanged. The
process stops after any exception from the core.
"""

from __future__ import annotations

from typing import Any

from engine.core import commands as _commands  # noqa: F401  (fills the table)
from engine.core.admission import NOT_QUEUED, Admission, look_up
from engine.core.clients.session import Queued, Session, Waiter
from engine.core.commands.streams.xadd import add_run
from engine.core.environment.context import Context
from engine.core.environment.divided_commands import DividedCommands
from engine.core.keyspace.changes import NEVER
from engine.core.keyspace.database import Database
from engine.core.protocol.replies import BLOCKED, QUEUED, CommandError, Reply, Several, Steps
from engine.core.protocol.xadd import XaddRun
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.stream import Stream
from engine.core.table.registry import COMMANDS, EXECUTING, WRITTEN, Command, called_by
from engine.settings.config import Config
from engine.text import messages

#: Administrative commands that change nothing. The flag ``admin`` concerns only permissions, not effects.
SHOWING = frozenset(
    {
        "acl|getuser",
        "acl|list",
        "acl|users",
        "acl|dryrun",
        "client|list",
        "config|get",
        "slowlog|get",
        "slowlog|len",
        "latency|latest",
        "latency|histogram",
        "module|list",
    }
)


class FatalError(BaseException):
    """The state in memory may be inconsistent, so no more commands may run. ``__cause__`` is the unexpected error.

    This is a BaseException, so that ``except Exception`` does not catch it. ``command`` is the name of the failed
    command, ``sizes`` are the lengths of its words (whose contents may be secret), and ``session_id`` is the client's
    session. If the error did not occur in a client's command, ``command`` and ``sizes`` are empty, and ``session_id``
    is 0.
    """

    def __init__(self, command: str = "", argv: list[bytes] | None = None, session_id: int = 0) -> None:
        super().__init__(command)
        self.command = command
        self.sizes = [len(word) for word in argv or ()]
        self.session_id = session_id


def only_reads(command: Command) -> bool:
    """Return whether the command changes nothing except expired keys."""
    return "readonly" in command.flags or command.name in SHOWING


def is_fatal(command: Command, error: Exception) -> bool:
    """Return whether data or shared state may be inconsistent after ``error`` in the command's handler."""
    if only_reads(command):
        return _came_from_expiry(error)
    return command.writes or "admin" in command.flags or command.name in EXECUTING or _came_from_expiry(error)


def _came_from_expiry(error: Exception) -> bool:
    """Return whether ``error`` occurred in the expiry of a key, the only change that a read-only command makes."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is Database.expire.__code__:
            return True
        traceback = traceback.tb_next
    return False


#: Milliseconds after which a claim checks again whether a pause has ended.
_PAUSE_CHECK_MS = 100


class Core(Context):
    """All state of one server. Effects depend on the commands and their times only, not on chance.

    Commands get it as their context, while `_call` runs them.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.sessions.on_wait_ended = self._note_wait
        self.divided = DividedCommands(self.changes, self._finish)
        self.admission = Admission(self.accounts, self.changes, self.pause)
        #: Whether the caller of ``execute`` and ``execute_run`` serves woken clients itself, after several commands.
        self.serve_later = False

    # -- sessions -----------------------------------------------------------------------------------------------------

    def open_session(self, now_us: int) -> Session:
        """Open a session for a new client."""
        session = self.sessions.open(now_us // 1000)
        if self.changes.replaying:
            self.accounts.trust(session)
        else:
            self.accounts.greet(session)
        return session

    def close_session(self, session: Session) -> None:
        """Remove the session of a closed connection, with its blocked command, watched keys and subscriptions."""
        self.sessions.close(session)
        self.changes.unwatch(session)
        self.pubsub.drop(session)
        self.monitors.drop(session)
        if session.is_replica:
            self.replication.drop(session)

    # -- commands -----------------------------------------------------------------------------------------------------

    def execute(self, session: Session, argv: list[bytes], now_us: int) -> Reply:
        """Run one command of ``session`` (or queue it, in a transaction), then serve the clients that it woke.

        Returns the reply, a CommandError for an error, BLOCKED if the client is now waiting, or Steps if they are
        allowed. ``argv`` is not empty. If ``serve_later`` is set, the caller serves the woken clients.
        """
        changes = self.changes
        changes.now_us = now_us
        changes.now = session.last_ms = now_us // 1000
        command = WRITTEN.get(argv[0])
        # Inlines Command.arity_fits.
        if command is None or (command.arity != len(argv) and not 0 < -command.arity <= len(argv)):
            try:
                command = look_up(argv)
            except CommandError as error:
                self._note_refused_form(session, argv)
                return self._refused(session, argv, error)
        session.last_command = command.full_name
        admission = self.admission
        if session.limited or session.monitor or session.subscriptions or admission.memory_full or admission.refuses:
            # Only these conditions can make the check fail.
            try:
                admission.check(session, command, argv)
            except CommandError as error:
                self.telemetry.stats[command.full_name].rejected += 1
                return self._refused(session, argv, error)
        if session.multi is not None and command.name not in NOT_QUEUED:
            if "no_multi" in command.flags:
                self.telemetry.stats[command.full_name].rejected += 1
                return self._refused(session, argv, CommandError(b"ERR Command not allowed inside a transaction"))
            session.multi.append((command, argv))
            return QUEUED
        # Inlines Core._run.
        first = len(changes.effects)
        try:
            reply = self._call(session, command, argv)
        except FatalError:
            del changes.effects[first:]
            raise
        if len(changes.effects) - first > 1:
            changes.seal_effects(first)
        if changes.ready and not self.serve_later:
            # The command may have taken long. Advance the time, so that woken clients do not see keys that have expired
            # meanwhile.
            changes.set_time(max(now_us, self.telemetry.measured_ns // 1000))
            self.serve()
        return reply

    def _note_refused_form(self, session: Session, argv: list[bytes]) -> None:
        """Record a command that `look_up` refused: its name for CLIENT LIST, and a rejection if the command exists."""
        command = called_by(argv)
        session.last_command = b"NULL" if command is None else command.full_name
        if command is not None:
            self.telemetry.stats[command.full_name].rejected += 1

    def allow_steps(self) -> None:
        """Allow ``execute`` to return Steps. Its caller must then call ``go_on``, and before each command
        ``divided.must_wait``.
        """
        self.allows_steps = True

    def go_on(self, session: Session, steps: Steps, now_us: int) -> Reply:
        """Run the next step of a command, then serve the clients that it woke.

        Returns the reply, or ``steps`` if the command is not finished.
        """
        changes = self.changes
        changes.set_time(now_us)
        reply: Reply = steps
        if steps.is_over:
            # Another command has finished this one.
            reply = steps.reply
        elif steps.is_started or not self.divided.images_wait:
            reply = self._run(session, look_up(steps.argv), steps.argv, steps=steps)
        if changes.ready:
            self.serve()
        return reply

    def _finish(self, steps: Steps) -> None:
        """Run all remaining steps of a command within another command; `go_on` returns the reply."""
        before = self.session, self.db, self.now, self.now_us, self.retry
        command = look_up(steps.argv)
        while not steps.is_over:
            self._step(steps.session, command, steps)
        self.session, self.db, self.now, self.now_us, self.retry = before

    def _refused(self, session: Session, argv: list[bytes], error: CommandError) -> CommandError:
        """Return the reply to a refused command, and fail the transaction that it is part of."""
        if argv[0].decode("latin-1").lower() in EXECUTING:
            session.multi, session.multi_failed = None, False
            self.changes.unwatch(session)
            error = CommandError(b"EXECABORT Transaction discarded because of: %b" % error.text.removeprefix(b"ERR "))
        elif session.multi is not None:
            session.multi_failed = True
        self.telemetry.count_error(error)
        return error

    def _run(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        retry: Waiter | None = None,
        steps: Steps | None = None,
    ) -> Reply:
        """Run a command, a blocked command again (``retry``), or the next step of a command (``steps``).

        Its effects are one transaction; after a fatal error they are dropped.
        """
        effects = self.changes.effects
        first = len(effects)
        try:
            if steps is not None:
                reply = self._step(session, command, steps)
            else:
                reply = self._forbidden(session, command, argv) or self._call(session, command, argv, retry)
        except FatalError:
            del effects[first:]
            raise
        if len(effects) - first > 1:
            self.changes.seal_effects(first)
        return reply

    def _forbidden(self, session: Session, command: Command, argv: list[bytes]) -> CommandError | None:
        """Return the reply to a queued or blocked command that the user may not call any more; None if it may run."""
        if session.limited:
            try:
                self.accounts.check(session, command, argv)
            except CommandError as error:
                self.telemetry.count_error(error)
                return error
        return None

    def _step(self, session: Session, command: Command, steps: Steps) -> Reply:
        """Run the next step of a command, at the time of its first step; return the reply, or ``steps`` if the command
        is not finished.
        """
        changes = self.changes
        now_us = changes.now_us
        changes.set_time(steps.now_us)
        reply = self._call(session, command, steps.argv, steps=steps)
        changes.set_time(now_us)
        if reply is not steps:
            steps.is_over, steps.reply = True, reply
            for take_image in self.divided.end(steps):
                self.host.after_reply(take_image)
            self.telemetry.note_slow(session, command, steps.argv, steps.spent_ns // 1000, changes.now)
        return reply

    def _call(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        retry: Waiter | None = None,
        steps: Steps | None = None,
    ) -> Reply:
        """Call a command's handler, or continue its ``steps``. Return an error as a reply instead of raising it."""
        changes, telemetry = self.changes, self.telemetry
        self.session, self.db, self.retry = session, self.databases[session.db], retry
        self.now, self.now_us = changes.now, changes.now_us
        failed = False
        reply: Reply
        try:
            reply = command.handler(self, argv) if steps is None else steps.next()
        except CommandError as error:
            telemetry.count_error(error)
            failed = True
            reply = error.as_reply() if type(error) is not UnreadableError else _naming(error, command, argv)
        except Exception as error:  # noqa: BLE001 - _unforeseen handles it
            failed = True
            reply = self._unforeseen(session, command, argv, error)
        end = telemetry.stopwatch()
        spent = end - telemetry.measured_ns
        telemetry.measured_ns = end
        # Counted after the run, as in Redis: CONFIG RESETSTAT is the first command in the new counters, and the reply
        # of INFO does not include that INFO.
        stat = telemetry.stats[command.full_name]
        stat.ns += spent
        if failed:
            stat.failed += 1
        if steps is not None:
            steps.spent_ns += spent
            return reply
        if retry is None:
            session.calls += 1
            # The duration is negative if the clock was set back; bit_length ignores the sign.
            stat.buckets[spent.bit_length()] += 1
        if (waiter := session.waiter if reply is BLOCKED else retry) is not None:
            waiter.spent_ns += spent
            if retry is None:
                waiter.called = argv
        elif type(reply) is Steps:
            reply.spent_ns = spent
        if spent >= telemetry.threshold_ns:
            if type(reply) is not Steps and reply is not BLOCKED and retry is None:
                telemetry.note(session, command, argv, spent, changes.now)
            if self.monitors.sessions and retry is None:
                self.monitors.show(session, command, argv)
        return reply

    def _note_wait(self, waiter: Waiter) -> None:
        """Report a finished blocked command if it was slow. Its duration is the total of its runs, without waiting."""
        if waiter.spent_ns >= self.telemetry.threshold_ns:
            self.telemetry.note(
                waiter.session, look_up(waiter.called), waiter.called, waiter.spent_ns, self.changes.now
            )

    def _unforeseen(self, session: Session, command: Command, argv: list[bytes], error: Exception) -> CommandError:
        """Return the reply to a command that raised an unexpected error. Raises FatalError if the server must stop."""
        if is_fatal(command, error):
            raise FatalError(command.name, argv, session.id) from error
        self.host.report_failure(command.name, error)
        if not only_reads(command):
            if self.retry is None:
                self.close(session)
            else:
                session.close_requested = True
                self.host.close(session)
        reply = CommandError(messages.INTERNAL_ERROR)
        self.telemetry.count_error(reply)
        return reply

    def run_queued(self, session: Session, queued: Queued) -> list[Reply | Several]:
        command, words = queued
        if isinstance(words, list):
            return [self._forbidden(session, command, words) or self._call(session, command, words)]
        seen = self.pubsub.keyspace_events or self.telemetry.wants_each
        quick = not (seen or (session.limited and not self.admission.may_add(session, words)))
        replies = self._add_run(session, words) if quick else None
        if replies is not None:
            return [Several(words.count, replies)]
        return [
            self._forbidden(session, command, argv) or self._call(session, command, argv) for argv in words.commands()
        ]

    # -- blocked clients ----------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Run the commands of clients whose keys were signalled: key by key, and in the order of blocking per key.

        Keys with a client that must wait for a divided command remain signalled.
        """
        changes, postponed = self.changes, dict[tuple[int, bytes], bool]()
        while changes.ready:
            signalled, changes.ready = changes.ready, {}
            for pair, replaced in signalled.items():
                if not self._serve_key(*pair, replaced=replaced):
                    postponed[pair] = replaced
        changes.ready = postponed

    def _serve_key(self, index: int, key: bytes, *, replaced: bool) -> bool:
        """Run the commands of clients that wait for a signalled key; return False if one must wait longer."""
        db = self.databases[index]
        nothing_for: set[bytes | None] = set()
        waiters: list[Waiter] = db.waiting.waiting_for(key)
        for waiter in waiters:
            if waiter.session.waiter is not waiter or waiter.interest in nothing_for:
                continue
            if self._is_held(waiter):
                return False
            if _concerns(waiter, key, db.get(key), replaced=replaced):
                self._retry(waiter)
            elif waiter.interest is not None:
                nothing_for.add(waiter.interest)
        return True

    def _is_held(self, waiter: Waiter) -> bool:
        """Return whether the waiter's command must wait for a divided command."""
        divided = self.divided
        return bool(divided.running) and divided.must_wait(waiter.session, waiter.argv) is not None

    def wake(self, session: Session, now_us: int) -> None:
        """Run the session's command again, or time it out. The shell calls this at ``Waiter.wake_at``.

        If the command keeps waiting, it may set a new wake time. If it must wait for a divided command, the wake time
        does not change, so that the shell calls this again.
        """
        changes = self.changes
        changes.set_time(now_us)
        waiter = session.waiter
        if waiter is None:
            return
        if waiter.deadline is not None and waiter.deadline <= changes.now:
            self.sessions.time_out(session)
        elif self.pause.until > changes.now:
            # Only a claim of XREADGROUP wakes a client at a time, and a pause holds it back like any other write.
            waiter.retry_at = changes.now + _PAUSE_CHECK_MS
        elif not self._is_held(waiter):
            self._retry(waiter)
            if changes.ready:
                self.serve()

    def _retry(self, waiter: Waiter) -> None:
        wake_at = waiter.wake_at
        reply = self._run(waiter.session, look_up(waiter.argv), waiter.argv, waiter)
        if reply is not BLOCKED:
            self.sessions.end_wait(waiter.session, reply)
        elif waiter.wake_at != wake_at:
            self.host.wake_at_new_time(waiter.session)

    # -- many XADDs at once -------------------------------------------------------------------------------------------

    def execute_run(self, session: Session, run: XaddRun, now_us: int) -> list[bytes | memoryview] | None:
        """Run many XADDs at once, or queue them in a transaction; return their replies as bytes.

        Blocked clients are served after the whole run, or by the caller if ``serve_later`` is set. Returns None, and
        runs nothing, if the commands must run one by one, for example because subscribers of keyspace events must see
        each of them.
        """
        changes = self.changes
        changes.now_us = now_us
        changes.now = session.last_ms = now_us // 1000
        if changes.on_event is not None or self.telemetry.wants_each or not self.admission.allows_run(session, run):
            return None
        session.last_command = b"xadd"
        if session.multi is not None:
            session.multi.append((COMMANDS[b"XADD"], run))
            return [b"+QUEUED\r\n" * run.count]
        first = len(changes.effects)
        try:
            replies = self._add_run(session, run)
        except Exception as error:
            del changes.effects[first:]
            raise FatalError("xadd", session_id=session.id) from error
        if replies is None:
            return None
        if len(changes.effects) - first > 1:
            changes.seal_effects(first)
        if changes.ready and not self.serve_later:
            self.serve()
        return replies

    def _add_run(self, session: Session, run: XaddRun) -> list[bytes | memoryview] | None:
        telemetry = self.telemetry
        self.enter(session)
        replies = add_run(self, run)
        if replies is not None:
            end = telemetry.stopwatch()
            spent = end - telemetry.measured_ns
            if spent < 0:  # noqa: PLR1730 - a call would cost more, for every XADD
                # The clock was set back.
                spent = 0
            telemetry.measured_ns = end
            telemetry.stats[b"xadd"].add_run(run.count, spent)
            session.calls += run.count
            if spent >= telemetry.threshold_ns * run.count:
                telemetry.note(session, COMMANDS[b"XADD"], next(run.commands()), spent // run.count, self.now)
        return replies

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> bool:
        """Remove expired records of idempotent producers. The shell calls this about once per second, and soon again if
        it returns True.
        """
        self.changes.set_time(now_us)
        return self.streams.expire_producers(self.changes.now)

    def expire_due(self, now_us: int, limit: int = 500) -> int:
        """Remove due keys, and serve the clients blocked on them; return the number of keys. Stops after ``limit``."""
        changes = self.changes
        changes.set_time(now_us)
        dropped = 0
        if changes.expiry_held_until > changes.now:
            changes.next_expiry = changes.expiry_held_until
            return 0
        for db in self.databases:
            if dropped < limit:
                dropped += db.expire_due(changes.now, limit - dropped)
        if changes.ready:
            self.serve()
        deadlines = (db.next_deadline() for db in self.databases)
        changes.next_expiry = min((deadline for deadline in deadlines if deadline is not None), default=NEVER)
        return dropped


def _naming(error: UnreadableError, command: Command, argv: list[bytes]) -> CommandError:
    """Return an error reply that names the keys of the failed command."""
    return CommandError(messages.unreadable_in(error.text, command.keys.of(argv)))


def _concerns(waiter: Waiter, key: bytes, value: Any, *, replaced: bool) -> bool:
    """Return whether the waiter's command must run again, given the current ``value`` of the signalled key.

    ``replaced``: whether the value was replaced since the client blocked.
    """
    if type(value) is Stream:
        return replaced or waiter.has_news is None or waiter.has_news(key, value)
    return waiter.on_delete
