"""The commands' interface to scripts and functions; ``engine.core.scripting`` implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from engine.core.protocol.replies import Reply

if TYPE_CHECKING:
    from engine.core.clients.session import Session


@dataclass(slots=True, eq=False)
class Library:
    """A library of functions. ``functions``: name of each function -> its description (None if missing) and flags."""

    name: bytes
    code: bytes
    functions: dict[bytes, tuple[bytes | None, list[bytes]]] = field(default_factory=dict)


class ScriptCache(Protocol):
    """The cached scripts by SHA-1, in upper- or lower-case hexadecimal digits."""

    def __len__(self) -> int: ...

    @property
    def memory(self) -> int:
        """The size of the scripts in bytes."""

    @property
    def interpreter_memory(self) -> int:
        """The memory used by the interpreter in bytes."""

    @property
    def running(self) -> RunningScript | None:
        """The running script, if any."""

    def has(self, sha: bytes) -> bool:
        """Return whether a script is cached."""

    def load(self, text: bytes, stays: bool = True) -> bytes:
        """Cache a script and return its SHA-1. Raise CommandError if it is invalid.

        With ``stays``, the script is cached until a flush. Otherwise later scripts without ``stays`` may evict it.
        """

    def flush(self) -> None:
        """Remove all scripts."""

    def run_script(self, ctx: Any, argv: list[bytes], count: int, sha: bytes, read_only: bool) -> Reply:
        """Run the script with this SHA-1. ``argv`` are the words of EVAL or EVALSHA, with ``count`` keys."""

    def apart(self, ctx: Any, argv: list[bytes], work: Callable[[], Reply]) -> Reply:
        """Run ``work``, which runs scripts and can be suspended; return its reply, or Steps if it is slow."""

    def kill(self, *, function: bool) -> None:
        """End the slow script that is running; with ``function``, the slow function.

        Raise CommandError if no slow script or function of this kind is running, or if it has written.
        """


class RunningScript(Protocol):
    """The running script. ``began_ns``: time of its start in nanoseconds, from the stopwatch of ``Telemetry``.

    ``is_slow``: whether the script has exceeded busy-reply-threshold, so that other clients are served while it runs.
    """

    name: bytes
    argv: list[bytes]
    caller: Session
    began_ns: int
    is_function: bool
    is_slow: bool


class FunctionLibraries(Protocol):
    """The libraries of functions."""

    @property
    def count(self) -> int:
        """The number of functions, without those of libraries whose code has not run yet."""

    @property
    def interpreter_memory(self) -> int:
        """The memory used by the interpreter in bytes."""

    def codes(self) -> list[bytes]:
        """Return the code of all libraries, for snapshots and logs."""

    def libraries(self) -> Iterable[Library]:
        """Return all libraries."""

    def load(self, code: bytes, *, replace: bool) -> bytes:
        """Add a library and return its name. With ``replace``, it replaces any library of the same name.

        Raise CommandError if the library cannot be loaded, or if its name exists and ``replace`` is not set.
        """

    def delete(self, name: bytes) -> None:
        """Delete a library. Raise CommandError if the name is unknown."""

    def flush(self) -> None:
        """Delete all libraries."""

    def restore(self, codes: list[bytes], *, replace: bool) -> None:
        """Add all libraries or none. Raise CommandError if one cannot be added."""

    def restore_later(self, codes: Iterable[bytes]) -> None:
        """Register a file's libraries; their code runs on first use."""

    def find(self, name: bytes) -> bool:
        """Return whether a function exists."""

    def run(self, ctx: Any, argv: list[bytes], count: int, *, read_only: bool) -> Reply:
        """Run a function. ``argv`` are the words of FCALL, with ``count`` keys."""
