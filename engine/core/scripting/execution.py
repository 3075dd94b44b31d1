"""The running script: its caller and permissions, whether it has written, and whether it must end."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class Execution:
    """One run of a script or function. ``argv`` are the words of the command that started it."""

    caller: Session
    name: bytes
    argv: list[bytes]
    flags: Flags
    is_function: bool
    read_only: bool
    #: Stopwatch time at the start, in nanoseconds.
    began_ns: int
    #: Whether memory was full at the start.
    memory_full: bool = False
    #: Whether each command must be checked: the caller has limits, the script may only read, or memory was full.
    is_restricted: bool = field(init=False)
    #: Whether the script has called a writing command.
    wrote: bool = False
    verdict: Verdict = Verdict.GO_ON
    #: Whether the run has exceeded busy-reply-threshold.
    is_slow: bool = False
    #: Whether the run loads a library, whose code registers functions.
    is_loading: bool = False

    def __post_init__(self) -> None:
        self.is_restricted = self.caller.limited or self.read_only or self.memory_full
