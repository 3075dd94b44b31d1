"""All clients of one core: their sessions by ID, the clients that watch all commands (MONITOR), pauses,
and the facts of CLIENT LIST.

As in Redis, MONITOR shows a command after it has run, so the commands of a transaction precede its EXEC.
Administrative commands are not shown. Pauses hold commands back until a given time: CLIENT PAUSE, and those of
failovers and shutdowns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.core.clients.session import Outbox, Session, Waiter
from engine.core.clients.telemetry import Telemetry
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.database import Database
from engine.core.protocol.replies import Reply, Simple
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


#: The owner of CLIENT PAUSE.
_CLIENT = "client"


class Pause:
    """The pauses of one core, each with an owner. Times are milliseconds since the epoch.

    The shell holds back all commands until ``all_until``, and commands with replicated effects until ``until``.
    """

    __slots__ = ("_owners", "all_until", "until")

    def __init__(self) -> None:
        #: Latest end of a pause; 0 if there is no pause.
        self.until = 0
        #: Latest end of a pause of all commands; 0 if there is no such pause.
        self.all_until = 0
        self._owners: dict[str, tuple[int, bool]] = {}

    def start(self, now: int, until: int, *, holds_all: bool, owner: str = _CLIENT) -> int:
        """Start or extend this owner's pause; return its end.

        A new call cannot shorten a pause, and a pause of all commands keeps holding all of them until its end.
        """
        before, held_all = self._owners.get(owner, (0, False))
        until = max(before, until)
        self._owners[owner] = until, holds_all or (held_all and before > now)
        self._sum_up()
        return until

    def end(self, owner: str = _CLIENT) -> None:
        """End this owner's pause."""
        self._owners.pop(owner, None)
        self._sum_up()

    def clear(self) -> None:
        """End all pauses."""
        self._owners.clear()
        self._sum_up()

    def next_end(self, now: int) -> int:
        """Return the end of the pause that ends next; 0 if there is no pause."""
        return min((until for until, _ in self._owners.values() if until > now), default=0)

    def _sum_up(self) -> None:
        self.until = max((until for until, _ in self._owners.values()), default=0)
        self.all_until = max((until for until, holds_all in self._owners.values() if holds_all), default=0)


class Sessions:
    """The open sessions, in the order in which they were opened. Replies to blocked clients go to ``outbox``."""

    __slots__ = ("_by_id", "_databases", "_last_id", "_outbox", "on_wait_ended")

    def __init__(self, databases: list[Database], outbox: Outbox) -> None:
        self._by_id: dict[int, Session] = {}
        self._databases = databases
        self._outbox = outbox
        self._last_id = 0
        #: Called for each blocked command that ends with a reply.
        self.on_wait_ended: Callable[[Waiter], None] = lambda _: None

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: int) -> Session | None:
        """Return the session with this ID, None if it is not open."""
        return self._by_id.get(session_id)

    def open(self, now: int) -> Session:
        """Create a session for a new client; ``now`` is in milliseconds since the epoch."""
        self._last_id += 1
        session = self._by_id[self._last_id] = Session(self._last_id, now)
        return session

    def close(self, session: Session) -> None:
        """Remove the session of a closed connection and cancel its blocked command."""
        self._by_id.pop(session.id, None)
        self.cancel_wait(session)

    def blocked(self) -> list[Session]:
        """Return the sessions that are blocked."""
        return [session for session in self if session.waiter is not None]

    def cancel_wait(self, session: Session) -> None:
        """Unblock the session without a reply."""
        waiter = session.waiter
        if waiter is not None:
            session.waiter = None
            self._databases[waiter.db].waiting.remove(waiter)

    def end_wait(self, session: Session, reply: Reply) -> None:
        """Unblock the session with ``reply``."""
        waiter = session.waiter
        self.cancel_wait(session)
        if waiter is not None:
            self.on_wait_ended(waiter)
        session.calls += 1
        self._outbox.append((session, reply))

    def time_out(self, session: Session) -> None:
        """Unblock the session with its command's reply for a timeout."""
        if session.waiter is not None:
            self.end_wait(session, session.waiter.on_timeout)


def session_type(session: Session) -> bytes:
    """Return the class of a client, as used by CLIENT LIST TYPE."""
    if session.is_replica or session.is_master:
        return b"replica" if session.is_replica else b"master"
    return b"pubsub" if session.subscriptions else b"normal"


def _flags(session: Session, *, held_back: bool) -> bytes:
    marks = (
        (b"O", session.monitor),
        (b"S", session.is_replica),
        (b"M", session.is_master),
        (b"P", bool(session.subscriptions)),
        (b"x", session.multi is not None),
        (b"b", session.waiter is not None or held_back),
        (b"d", session.dirty_exec),
        (b"c", session.close_after_reply),
    )
    return b"".join(mark for mark, on in marks if on) or b"N"


def describe(session: Session, now_ms: int, running: Sequence[bytes] = ()) -> bytes:
    """Return a session's line in CLIENT LIST, without line end. ``running``: the words of its running command."""
    words = sum(map(len, running or (session.waiter.argv if session.waiter else ())))
    buffers = session.buffers()
    flags = _flags(session, held_back=buffers.held_back)
    queued, queued_bytes = session.queued()
    fields: list[tuple[bytes, bytes | int]] = [
        (b"id", session.id),
        (b"addr", session.addr),
        (b"laddr", session.laddr),
        (b"fd", session.fd),
        (b"name", session.name),
        (b"age", max(now_ms - session.created_ms, 0) // 1000),
        (b"idle", max(now_ms - session.last_ms, 0) // 1000),
        (b"flags", flags),
        (b"db", session.db),
        (b"sub", len(session.channels)),
        (b"psub", len(session.patterns)),
        (b"ssub", 0),
        (b"multi", queued),
        (b"watch", len(session.watching)),
        (b"qbuf", buffers.commands),
        (b"qbuf-free", 0),
        (b"argv-mem", words),
        (b"multi-mem", queued_bytes),
        (b"rbs", 0),
        (b"rbp", 0),
        (b"obl", 0),
        (b"oll", int(buffers.replies > 0)),
        (b"omem", buffers.replies),
        (b"tot-mem", buffers.commands + buffers.replies + queued_bytes + words),
        (b"events", b"r"),
        (b"cmd", session.last_command),
        (b"user", session.user.name),
        (b"redir", -1),
        (b"resp", session.proto),
        (b"lib-name", session.lib_name),
        (b"lib-ver", session.lib_ver),
        (b"io-thread", 0),
        (b"tot-net-in", buffers.received),
        (b"tot-net-out", buffers.sent),
        (b"tot-cmds", session.calls),
    ]
    return b" ".join(name + b"=" + (value if isinstance(value, bytes) else b"%d" % value) for name, value in fields)
