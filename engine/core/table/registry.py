"""The command table: the properties of each command, read by dispatch, COMMAND, HELP, ACL checks and the docs.

Commands are declared above their handlers with ``engine.core.table.declare``; there is no second list.
Subcommands of a container (XGROUP, CLIENT) have names of the form ``xgroup|create``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from engine.core.protocol.replies import Reply

#: The handler of a command: takes a context and the command's words (its name and arguments), and returns the reply.
#: The context is a ``engine.core.environment.context.Context``, which is in a higher layer and cannot be imported here.
Handler = Callable[[Any, list[bytes]], Reply]
KeyFinder = Callable[[list[bytes]], list[bytes]]


@dataclass(frozen=True, slots=True)
class Keys:
    """Positions of a command's keys: ``first``, ``last`` (negative: from the end) and ``step`` as in COMMAND INFO.

    If positions are not fixed (XREAD's STREAMS), ``find`` replaces them: it returns the keys in argv.
    """

    first: int = 0
    last: int = 0
    step: int = 0
    find: KeyFinder | None = None

    def of(self, argv: list[bytes]) -> list[bytes]:
        """Return the keys in ``argv`` (all words of the command, including the name)."""
        if self.find is not None:
            return self.find(argv)
        if not self.first:
            return []
        last = self.last if self.last >= 0 else len(argv) + self.last
        return argv[self.first : last + 1 : self.step]


@dataclass(frozen=True, slots=True)
class Use:
    """A command's use of a key: the words of COMMAND INFO's key specifications, and the permissions required."""

    words: tuple[str, ...]
    reads: bool
    writes: bool


def _use(words: str) -> Use:
    given = tuple(words.split())
    return Use(given, "access" in given, not {"insert", "update", "delete"}.isdisjoint(given))


_OVERWRITES, _SETS_IF, _GETS = _use("OW update"), _use("RW update"), _use("RW access update")
_CONDITIONS = {b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"}


def _use_by_set(argv: list[bytes]) -> Use:
    """Return SET's use of its key, which depends on the options."""
    words = {word.upper() for word in argv[3:]}
    if b"GET" in words:
        return _GETS
    return _SETS_IF if words & _CONDITIONS else _OVERWRITES


@dataclass(frozen=True, slots=True)
class Channels:
    """Positions of a command's channels: from index 1 to ``last``, or to the last word if ``last`` is negative.

    ``patterns``: whether the channels are patterns.
    """

    last: int
    patterns: bool = False

    def of(self, argv: list[bytes]) -> list[bytes]:
        """Return the channels in ``argv``."""
        return argv[1 : self.last + 1 if self.last >= 0 else len(argv)]


NO_KEYS = Keys()
ONE_KEY = Keys(1, 1, 1)
ALL_KEYS = Keys(1, -1, 1)
SUB_KEY = Keys(2, 2, 1)


@dataclass(frozen=True, slots=True)
class Command:
    """The declaration of a command.

    ``arity`` is the number of words, including the name (and the subcommand's name); a negative arity is a minimum.

    ``flags`` are the flags of COMMAND INFO (write, readonly, denyoom, admin, pubsub, blocking, loading, stale,
    fast, no_auth, no_multi, movablekeys, ...). ``acl`` contains the ACL categories that the flags do not imply.
    ``syntax`` contains the arguments in the notation of Redis's documentation.
    """

    name: str
    handler: Handler
    arity: int
    flags: frozenset[str]
    keys: Keys
    group: str
    summary: str
    syntax: str
    acl: frozenset[str]
    #: The command's use of its keys, such as ``RW access delete``, or ``RO access, OW update`` if the uses of two keys
    #: differ. If empty, the use follows from the flags ``readonly`` and ``write``.
    access: str = ""
    channels: Channels | None = None
    subcommands: dict[bytes, Command] = field(default_factory=dict)
    #: The name in error texts and INFO, ``xgroup|create`` for a subcommand.
    full_name: bytes = field(init=False)
    #: Whether the command may change data.
    writes: bool = field(init=False)
    #: Use of each key; the last one also applies to all later keys.
    uses: tuple[Use, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Fields instead of properties, because dispatch reads them for each command.
        object.__setattr__(self, "full_name", self.name.encode())
        object.__setattr__(self, "writes", "write" in self.flags)
        access = self.access or ("RW update" if self.writes else "RO access")
        object.__setattr__(self, "uses", tuple(map(_use, access.split(","))))

    def arity_fits(self, count: int) -> bool:
        """Return whether ``count`` words, including the name, match the arity."""
        return count == self.arity or 0 < -self.arity <= count

    def touched(self, argv: list[bytes]) -> list[tuple[bytes, Use]]:
        """Return the keys in ``argv`` with their uses."""
        keys = self.keys.of(argv)
        if len(self.uses) > 1:
            return list(zip(keys, chain(self.uses, repeat(self.uses[-1])), strict=False))
        use = self.uses[0]
        if "variable_flags" in use.words:
            use = _use_by_set(argv)
        return [(key, use) for key in keys]

    def categories(self) -> frozenset[str]:
        """Return the ACL categories (without @), including implied ones, as ``COMMAND INFO`` shows them."""
        names = set(self.acl)
        if "write" in self.flags:
            names.add("write")
        if "readonly" in self.flags:
            names.add("read")
        if "admin" in self.flags:
            names |= {"admin", "dangerous"}
        if "blocking" in self.flags:
            names.add("blocking")
        if "pubsub" in self.flags:
            names.add("pubsub")
        names.add("fast" if "fast" in self.flags else "slow")
        return frozenset(names)


#: Names of the commands that run the queue of a transaction.
EXECUTING = frozenset({"exec", "ps.exec"})
#: All commands by their upper-case name.
COMMANDS: dict[bytes, Command] = {}
#: The commands without subcommands by the names that clients write: in upper case and in lower case.
WRITTEN: dict[bytes, Command] = {}


def register(command: Command) -> None:
    """Add a declaration to the table. A subcommand's container must be declared before it."""
    parent, bar, sub = command.name.upper().encode().partition(b"|")
    table = COMMANDS[parent].subcommands if bar else COMMANDS
    if (sub or parent) in table:
        raise ValueError(f"command {command.name} is declared twice")
    table[sub or parent] = command
    if not bar:
        WRITTEN[parent] = WRITTEN[parent.lower()] = command
    elif parent in WRITTEN:
        del WRITTEN[parent], WRITTEN[parent.lower()]


def all_commands() -> Iterator[Command]:
    """Yield every command, each container followed by its subcommands."""
    for command in COMMANDS.values():
        yield command
        yield from command.subcommands.values()


def find(name: bytes) -> Command | None:
    """Return the command of this name (a subcommand is ``container|subcommand``), in any case; None if unknown."""
    parent, bar, sub = name.upper().partition(b"|")
    found = COMMANDS.get(parent)
    return found.subcommands.get(sub) if found is not None and bar else found


def called_by(argv: list[bytes]) -> Command | None:
    """Return the command that ``argv`` calls; None if the command or subcommand is unknown."""
    found = COMMANDS.get(argv[0].upper())
    return found.subcommands.get(argv[1].upper()) if found is not None and found.subcommands and argv[1:] else found
