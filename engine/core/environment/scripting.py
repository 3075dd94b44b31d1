"""What commands see of scripts and functions; :mod:`engine.core.scripting` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from engine.core.protocol.replies import Reply

if TYPE_CHECKING:
    from engine.core.clients.session import Session


@dataclass(slots=True, eq=False)
class Library:
    """A library of functions: its code, and each function with its description and flags."""

    name: bytes
    code: bytes
    functions: dict[bytes, tuple[bytes | None, list[bytes]]] = field(default_factory=dict)


class ScriptCache(Protocol):
    """The scripts by their SHA-1, in hexadecimal digits of any case."""

    def __len__(self) -> int: ...

    @property
    def memory(self) -> int:
        """The bytes of the scripts."""

    @property
    def interpreter_memory(self) -> int:
        """The bytes that the interpreter uses."""

    @property
    def running(self) -> RunningScript | None:
        """What runs now."""

    def has(self, sha: bytes) -> bool:
        """Whether a script is there."""

    def load(self, text: bytes, *, stays: bool = True) -> bytes:
        """Put a script into the cache; its SHA-1. A CommandError where it is none.

        It ``stays`` until all are forgotten, or may make room for others that do not stay.
        """

    def flush(self) -> None:
        """Forget all scripts."""

    def run_script(self, ctx: Any, argv: list[bytes], sha: bytes, *, read_only: bool) -> Reply:
        """Run the script with that SHA-1: ``argv`` are the words of EVAL or EVALSHA."""

    def apart(self, ctx: Any, argv: list[bytes], work: Callable[[], Reply]) -> Reply:
        """Do ``work``, in which scripts run, so that it can be put aside: its reply, or Steps if it takes long."""

    def kill(self, *, function: bool) -> None:
        """End the script (or function) that runs and has not written yet; a CommandError where there is none."""


class RunningScript(Protocol):
    """What runs now. ``began_ns``: when it began, by the stopwatch; ``is_slow``: others may speak in between."""

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
        """How many functions there are."""

    @property
    def interpreter_memory(self) -> int:
        """The bytes that the interpreter uses."""

    def codes(self) -> list[bytes]:
        """The code of all libraries, as files keep it."""

    def libraries(self) -> Iterable[Library]:
        """All libraries."""

    def load(self, code: bytes, *, replace: bool) -> bytes:
        """Add a library, or replace the one of its name; the name. A CommandError where that is not possible."""

    def delete(self, name: bytes) -> None:
        """Delete a library; a CommandError where there is none of that name."""

    def flush(self) -> None:
        """Delete all libraries."""

    def restore(self, codes: list[bytes], *, replace: bool) -> None:
        """Add libraries, all or none; a CommandError where one cannot be added."""

    def restore_later(self, codes: Iterable[bytes]) -> None:
        """Note libraries that a file has; their code runs when somebody asks for them."""

    def find(self, name: bytes) -> bool:
        """Whether there is such a function."""

    def run(self, ctx: Any, argv: list[bytes], *, read_only: bool) -> Reply:
        """Run a function: ``argv`` are the words of FCALL."""
