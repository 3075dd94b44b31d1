"""The script that is running: whose it is, what it may do, what it has done, and whether it shall end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from engine.core.clients.session import Session


class Verdict(IntEnum):
    """What the hook is told, which asks every so many instructions."""

    GO_ON = 0
    KILLED = 1
    OUT_OF_MEMORY = 2
    LOAD_TIMEOUT = 3


@dataclass(frozen=True, slots=True)
class Flags:
    """What the first line of a script, or the registration of a function, says of it."""

    no_writes: bool = False
    allow_oom: bool = False
    allow_stale: bool = False
    #: The script has a first line ``#!lua``: it is judged as a whole before it runs. Others are judged by their calls.
    declared: bool = True


#: The names of flags. Those about clusters mean nothing here.
KNOWN_FLAGS = frozenset({b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"})
UNDECLARED = Flags(declared=False)


def flags_of(words: frozenset[bytes]) -> Flags:
    """The flags that these words mean."""
    return Flags(b"no-writes" in words, b"allow-oom" in words, b"allow-stale" in words)


@dataclass(slots=True, eq=False)
class Execution:
    """One run. ``argv`` are the words of the command that began it; times are the stopwatch's nanoseconds."""

    caller: Session
    name: bytes
    argv: list[bytes]
    flags: Flags
    is_function: bool
    read_only: bool
    began_ns: int
    #: There was no memory when it began.
    memory_full: bool = False
    #: It has called a command that writes.
    wrote: bool = False
    verdict: Verdict = Verdict.GO_ON
    #: It has taken longer than busy-reply-threshold.
    is_slow: bool = False
    #: The code of a library is running, which registers its functions.
    is_loading: bool = False
