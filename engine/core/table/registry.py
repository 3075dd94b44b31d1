"""The command table: what is known of each command. Dispatch, COMMAND, HELP, ACL checks and the docs all read it.

Commands are declared above the functions that do them, with :mod:`engine.core.table.declare`; nobody keeps a second
list. Subcommands of a container (XGROUP, CLIENT) have names of the form ``xgroup|create``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from engine.core.protocol.replies import Reply

#: The function that does a command: from a context and the command's words to the reply. The context is a
#: :class:`engine.core.environment.context.Context`, which is above this table and cannot be imported here.
Handler = Callable[[Any, list[bytes]], Reply]
KeyFinder = Callable[[list[bytes]], list[bytes]]


@dataclass(frozen=True, slots=True)
class Keys:
    """Where a command's keys stand: ``first``, ``last`` (negative: from the end) and ``step`` as COMMAND INFO gives
    them.

    ``find`` takes over where positions cannot say it (XREAD's STREAMS), given argv, giving the keys. With ``count_at``
    the word there says how many keys follow it, ``apart`` words from one to the next; they come behind those at fixed
    places. No key follows a count that is not positive or exceeds the words behind it. ``are_channels``: shard channels
    stand there, which COMMAND INFO places as if they were keys.
    """

    first: int = 0
    last: int = 0
    step: int = 0
    find: KeyFinder | None = None
    count_at: int = 0
    apart: int = 1
    are_channels: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether there are none, or ``first``, ``last`` and ``step`` say where they are."""
        return self.find is None and not self.count_at

    @property
    def are_none(self) -> bool:
        """Whether the command never has a key."""
        return self.are_channels or (self.is_fixed and not self.first)

    def of(self, argv: list[bytes]) -> list[bytes]:
        """The keys in ``argv`` (the command's whole words, the name first)."""
        if self.find is not None:
            return self.find(argv)
        if self.count_at:
            counted = self.counted(argv)
            return argv[self.first : self.last + 1] + counted if self.first else counted
        if self.are_none:
            return []
        last = self.last if self.last >= 0 else len(argv) + self.last
        return argv[self.first : last + 1 : self.step]

    def counted(self, argv: list[bytes]) -> list[bytes]:
        """The keys that follow their number at ``count_at``."""
        at = self.count_at + 1
        word = argv[at - 1] if len(argv) >= at else b""
        count = int(word) if word.isdigit() and len(word) < 10 else 0
        keys = argv[at : at + count * self.apart : self.apart]
        return keys if len(keys) == count else []


@dataclass(frozen=True, slots=True)
class Use:
    """What a command does with a key: the words of COMMAND INFO's key specifications, and what a user needs for it."""

    words: tuple[str, ...]
    reads: bool
    writes: bool


def _use(words: str) -> Use:
    given = tuple(words.split())
    return Use(given, "access" in given, not {"insert", "update", "delete"}.isdisjoint(given))


_OVERWRITES, _SETS_IF, _DELETES = _use("OW update"), _use("RW update"), _use("RM delete")
_CONDITIONS = {b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"}


def _variable(use: Use, argv: list[bytes]) -> Use:
    """What SET and DELEX do, whose use of their key depends on their options."""
    if "delete" in use.words:
        return use if len(argv) > 2 else _DELETES
    words = {word.upper() for word in argv[3:]}
    if b"GET" in words:
        return use
    return _SETS_IF if words & _CONDITIONS else _OVERWRITES


@dataclass(frozen=True, slots=True)
class Channels:
    """Where a command's channels stand, as :class:`Keys`; ``patterns``: they are patterns of channels."""

    last: int
    patterns: bool = False

    def of(self, argv: list[bytes]) -> list[bytes]:
        """The channels in ``argv``."""
        return argv[1 : self.last + 1 if self.last >= 0 else len(argv)]


NO_KEYS = Keys()
ONE_KEY = Keys(1, 1, 1)
ALL_KEYS = Keys(1, -1, 1)
SUB_KEY = Keys(2, 2, 1)


@dataclass(frozen=True, slots=True)
class Command:
    """A declaration. ``arity`` counts the name (and the subcommand's word) and is negative for "at least".

    ``flags`` are COMMAND INFO's (write, readonly, denyoom, admin, pubsub, noscript, blocking, loading, stale, fast,
    no_auth, no_multi, allow_busy, movablekeys, ...); ``acl`` the categories beyond those that the flags imply;
    ``syntax`` the arguments as the documentation writes them.
    """

    name: str
    handler: Handler
    arity: int
    flags: frozenset[str]
    keys: Keys
    group: str
    since: str
    summary: str
    complexity: str
    syntax: str
    acl: frozenset[str]
    #: What it does with its keys: ``RW access delete``; with two keys perhaps ``RO access, OW update``. Empty: what
    #: ``readonly`` and ``write`` let one expect.
    access: str = ""
    channels: Channels | None = None
    subcommands: dict[bytes, Command] = field(default_factory=dict)
    #: The name as error texts and INFO give it, ``xgroup|create`` for a subcommand.
    full_name: bytes = field(init=False)
    #: Whether it may change data.
    writes: bool = field(init=False)
    #: What it does with its keys: one for each, the last one for all that follow as well.
    uses: tuple[Use, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Fields rather than properties, because dispatch reads them for each command.
        object.__setattr__(self, "full_name", self.name.encode())
        object.__setattr__(self, "writes", "write" in self.flags)
        access = self.access or ("RW update" if self.writes else "RO access")
        object.__setattr__(self, "uses", tuple(map(_use, access.split(","))))

    def arity_fits(self, count: int) -> bool:
        """Whether ``count`` words, the name among them, are as many as it wants."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    def touched(self, argv: list[bytes]) -> list[tuple[bytes, Use]]:
        """The keys in ``argv``, each with what is done with it."""
        keys = self.keys.of(argv)
        if len(self.uses) > 1:
            return list(zip(keys, chain(self.uses, repeat(self.uses[-1])), strict=False))
        use = self.uses[0]
        if "variable_flags" in use.words:
            use = _variable(use, argv)
        return [(key, use) for key in keys]

    def categories(self) -> frozenset[str]:
        """The ACL categories (without @), the implied ones included, as ``COMMAND INFO`` shows them."""
        names = set(self.acl)
        if "write" in self.flags:
            names.add("write")
        if "readonly" in self.flags and "scripting" not in self.acl:
            names.add("read")
        if "admin" in self.flags:
            names |= {"admin", "dangerous"}
        if "blocking" in self.flags:
            names.add("blocking")
        if "pubsub" in self.flags:
            names.add("pubsub")
        names.add("fast" if "fast" in self.flags else "slow")
        return frozenset(names)


#: All commands by their upper-case name, as it comes over the wire.
COMMANDS: dict[bytes, Command] = {}


def register(command: Command) -> None:
    """Add a declaration to the table; a subcommand to its container, which is declared before it."""
    parent, bar, sub = command.name.upper().encode().partition(b"|")
    table = COMMANDS[parent].subcommands if bar else COMMANDS
    if (sub or parent) in table:
        raise ValueError(f"command {command.name} is declared twice")
    table[sub or parent] = command


def all_commands() -> Iterator[Command]:
    """Every command, each container followed by its subcommands."""
    for one in COMMANDS.values():
        yield one
        yield from one.subcommands.values()


def find(name: bytes) -> Command | None:
    """The command of that name in any case, ``container|subcommand`` for a subcommand."""
    parent, bar, sub = name.upper().partition(b"|")
    found = COMMANDS.get(parent)
    return found.subcommands.get(sub) if found is not None and bar else found


def called_by(argv: list[bytes]) -> Command | None:
    """The command that ``argv`` calls; None where there is none of that name, or no such subcommand."""
    found = COMMANDS.get(argv[0].upper())
    return found.subcommands.get(argv[1].upper()) if found is not None and found.subcommands and argv[1:] else found
