"""Admission of commands: checks that the command exists, that its user may call it, and that the server accepts it now.

The checks run in Redis's order: if several fail, the client receives the error of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from engine.core.clients.accounts import Accounts
from engine.core.clients.session import Session
from engine.core.clients.sessions import Pause
from engine.core.keyspace.changes import Changes
from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd import XaddRun
from engine.core.table.registry import COMMANDS, EXECUTING, WRITTEN, Command
from engine.core.table.unsupported import family_of
from engine.text import messages

#: Commands that run immediately inside MULTI instead of being queued.
NOT_QUEUED = {*EXECUTING, "discard", "multi", "watch", "quit", "reset"}
#: Commands that a RESP2 client may call while it is subscribed.
_IN_SUBSCRIPTION = {
    "subscribe",
    "psubscribe",
    "unsubscribe",
    "punsubscribe",
    "ping",
    "quit",
    "reset",
}


def look_up(argv: list[bytes]) -> Command:
    """Return the declaration of the command that ``argv`` calls.

    Raises CommandError if the command is unknown or the arity is wrong.
    """
    command = WRITTEN.get(argv[0]) or COMMANDS.get(argv[0].upper())
    if command is None:
        family = family_of(argv[0])
        raise CommandError(messages.unknown_command(argv) if family is None else messages.left_out(argv[0], family))
    if command.subcommands and len(argv) > 1:
        sub = command.subcommands.get(argv[1].upper())
        if sub is None:
            name = command.full_name + b"|" + argv[1]
            family = family_of(name)
            if family is not None:
                raise CommandError(messages.left_out(name, family))
            raise CommandError(
                b"ERR unknown subcommand '%b'. Try %b HELP." % (argv[1][:128], command.full_name.upper())
            )
        command = sub
    if not command.arity_fits(len(argv)):
        raise CommandError(messages.wrong_arity(command.full_name))
    return command


class Refusal(Enum):
    """Reasons to refuse commands, by precedence: if several apply, the client receives the error of the first.

    Each reason is set by one component. DISK, REPLICAS and READONLY apply to writing commands. For the other reasons,
    ``_EXEMPT`` names the flag that decides.
    """

    #: The disk rejects writes. PING is refused too, so that health checks fail.
    DISK = auto()
    #: Too few replicas are connected (min-replicas-to-write).
    REPLICAS = auto()
    #: This server is a replica that only its master may write to.
    READONLY = auto()
    #: The link to the master is down, and the data may be stale (replica-serve-stale-data no).
    STALE = auto()
    #: Data is being loaded that will replace the current data, which can still be read.
    LOADING = auto()


#: Flags of the commands that CLIENT PAUSE WRITE delays.
_REPLICATED = {"write", "may_replicate"}
_WRITING = (Refusal.DISK, Refusal.REPLICAS, Refusal.READONLY)
#: Reason -> a command flag, and whether commands with the flag (True) or without the flag (False) are refused.
_EXEMPT = {
    Refusal.STALE: ("stale", False),
    Refusal.LOADING: ("no_async_loading", True),
}


class Admission:
    """The admission checks of one core. The shell sets ``memory_full`` and calls ``refuse``."""

    __slots__ = ("_accounts", "_changes", "_pause", "_refusals", "memory_counts", "memory_full", "refuses")

    def __init__(self, accounts: Accounts, changes: Changes, pause: Pause) -> None:
        self._accounts = accounts
        self._changes = changes
        self._pause = pause
        #: Whether the process exceeds its memory limit: commands that need more memory are refused.
        self.memory_full = False
        #: Whether maxmemory is enforced. If not, ``memory_full`` is never set (replica-ignore-maxmemory on a replica).
        self.memory_counts = True
        #: Whether any reason to refuse applies. The master of this server is exempt from all reasons.
        self.refuses = False
        self._refusals: dict[Refusal, bytes] = {}

    def refuse(self, why: Refusal, error: bytes) -> None:
        """Refuse commands for this reason, with the reply ``error``; an empty ``error`` allows them again."""
        self._refusals.pop(why, None)
        if error:
            self._refusals[why] = error
        self.refuses = bool(self._refusals)

    def refusal(self, why: Refusal) -> bytes:
        """Return the current error for this reason; empty if the reason does not apply."""
        return self._refusals.get(why, b"")

    def check(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Raise CommandError if the session may not call the command now."""
        if session.limited:
            self._accounts.check(session, command, argv)
        if self.memory_full and not self._changes.replaying and self._needs_memory(session, command):
            raise CommandError(b"OOM command not allowed when used memory > 'maxmemory'.")
        refuses = self.refuses and not self._changes.replaying and not session.is_master
        if refuses:
            self._check_writing(session, command)
        if session.proto == 2 and session.subscriptions and command.name not in _IN_SUBSCRIPTION:
            raise CommandError(messages.in_subscription(command.full_name))
        if session.monitor and (command.writes or "readonly" in command.flags):
            raise CommandError(b"ERR Replica can't interact with the keyspace")
        if refuses:
            self._check_readiness(session, command)

    def _needs_memory(self, session: Session, command: Command) -> bool:
        return any("denyoom" in flags for flags in _all_flags(session, command))

    def _check_writing(self, session: Session, command: Command) -> None:
        if any("write" in flags for flags in _all_flags(session, command)):
            reasons: tuple[Refusal, ...] = _WRITING
        elif command.name == "ping":
            reasons = (Refusal.DISK,)
        else:
            return
        for why in reasons:
            if why in self._refusals:
                raise CommandError(self._refusals[why])

    def _check_readiness(self, session: Session, command: Command) -> None:
        for why, (flag, having) in _EXEMPT.items():
            if why in self._refusals and any((flag in flags) is having for flags in _all_flags(session, command)):
                raise CommandError(self._refusals[why])

    def allows_run(self, session: Session, run: XaddRun) -> bool:
        """Return whether the session may now run these XADDs together. If not, each must be checked separately."""
        if (self.refuses or self.memory_full) and not self._changes.replaying:
            return False
        if session.limited and not self.may_add(session, run):
            return False
        return session.proto != 2 or not session.subscriptions

    def may_add(self, session: Session, run: XaddRun) -> bool:
        """Return whether a limited session's user may run all of these XADDs. Each distinct key is checked once."""
        adds = ([b"XADD", key, b"*", b"field", b"value"] for key in run.distinct_keys())
        return self._accounts.may_call(session, COMMANDS[b"XADD"], adds)

    def is_held_back(self, session: Session, argv: list[bytes], now: int) -> bool:
        """Return whether a pause delays the command at ``now`` (milliseconds). Removes the pauses if all have ended."""
        pause = self._pause
        if now >= pause.until:
            pause.clear()
            return False
        return now < pause.all_until or _may_replicate(session, argv)


def _all_flags(session: Session, command: Command) -> Iterator[frozenset[str]]:
    """Yield the flags of a command. For EXEC, also yield the flags of each queued command."""
    yield command.flags
    if command.name in EXECUTING:
        for queued, _ in session.multi or ():
            yield queued.flags


def _may_replicate(session: Session, argv: list[bytes]) -> bool:
    """Return whether the command may have replicated effects."""
    try:
        command = look_up(argv)
    except CommandError:
        return False
    return any(flags & _REPLICATED for flags in _all_flags(session, command))
