"""The running script: its caller and permissions, whether it has written, and whether it must end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from engine.core.clients.session import Session


class Verdict(IntEnum):
    """Whether a script continues, or why it must end. Lua's hook requests the verdict periodically."""

    GO_ON = 0
    KILLED = 1
    OUT_OF_MEMORY = 2
    LOAD_TIMEOUT = 3


@dataclass(frozen=True, slots=True)
class Flags:
    """Declarations in the first line of a script, or in the registration of a function."""

    no_writes: bool = False
    allow_oom: bool = False
    allow_stale: bool = False
    #: Whether the script starts with ``#!lua`` (functions always count as such). If so, the flags are checked before it
    #: runs. Each command that it calls is checked in any case.
    declared: bool = True


#: The known flags. Flags about clusters have no effect here.
KNOWN_FLAGS = frozenset({b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"})
UNDECLARED = Flags(declared=False)


def flags_of(words: frozenset[bytes]) -> Flags:
    """Return the flags that ``words`` declare; flags about clusters are ignored."""
    return Flags(b"no-writes" in words, b"allow-oom" in words, b"allow-stale" in words)


class Execution:
    """One run of a script or function."""

    __slots__ = (
        "argv",
        "began_ns",
        "caller",
        "flags",
        "is_function",
        "is_loading",
        "is_restricted",
        "is_slow",
        "memory_full",
        "name",
        "read_only",
        "verdict",
        "wrote",
    )

    def __init__(
        self,
        caller: Session,
        name: bytes,
        argv: list[bytes],
        flags: Flags,
        is_function: bool,
        read_only: bool,
        began_ns: int,
        memory_full: bool = False,
    ) -> None:
        self.caller = caller
        self.name = name
        #: The words of the command that started the run.
        self.argv = argv
        self.flags = flags
        self.is_function = is_function
        self.read_only = read_only
        #: Stopwatch time at the start, in nanoseconds.
        self.began_ns = began_ns
        #: Whether memory was full at the start.
        self.memory_full = memory_full
        #: Whether each command must be checked: the caller has limits, the script may only read, or memory was full.
        self.is_restricted = caller.limited or read_only or memory_full
        #: Whether the script has called a writing command.
        self.wrote = False
        self.verdict = Verdict.GO_ON
        #: Whether the run has exceeded busy-reply-threshold.
        self.is_slow = False
        #: Whether the run loads a library, whose code registers functions.
        self.is_loading = False
