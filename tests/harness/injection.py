"""Injected bugs: a handler that raises an unexpected error before its first change or after some changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engine.core.environment.context import Context
from engine.core.keyspace.database import Database
from engine.core.table.registry import Command, all_commands


class MistakeError(Exception):
    """A stand-in for any bug in the engine's code."""


class Bomb:
    """A counter of changes that raises a MistakeError instead of the change with number ``left``."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.counted = 0

    def tick(self) -> None:
        """Count a change that is about to be made."""
        self.counted += 1
        if self.left is not None:
            if not self.left:
                raise MistakeError
            self.left -= 1


def by_name() -> dict[str, Command]:
    """Return every command and subcommand of the table by name."""
    return {command.name: command for command in all_commands()}


#: Methods with which every handler changes data and effects.
_CHANGES = (
    (Context, "effect"),
    *((Database, name) for name in ("add", "set", "touch", "changed", "_drop")),
    *((Database, name) for name in ("clear", "swap", "set_deadline")),
)


def _wrap_changes(bomb: Bomb) -> None:
    for owner, name in _CHANGES:
        original = getattr(owner, name)

        def changed(self: Any, *words: Any, _original: Any = original, **more: Any) -> Any:
            bomb.tick()
            return _original(self, *words, **more)

        setattr(owner, name, changed)


@contextmanager
def counted_changes() -> Iterator[Bomb]:
    """Yield a bomb that counts each change of a handler inside the block."""
    bomb, before = Bomb(), [(owner, name, getattr(owner, name)) for owner, name in _CHANGES]
    _wrap_changes(bomb)
    try:
        yield bomb
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


@contextmanager
def fails_in(command: Command) -> Iterator[None]:
    """Make a command's handler raise before its first change inside the block."""
    original = command.handler

    def handler(ctx: Context, argv: list[bytes]) -> Any:
        raise MistakeError

    object.__setattr__(command, "handler", handler)
    try:
        yield
    finally:
        object.__setattr__(command, "handler", original)


def inject(faults: Mapping[str, int]) -> None:
    """Make commands of this process's engine fail if an argument contains FAULT.

    ``faults`` maps each command to the number of changes that it makes before it fails.
    """
    bomb = Bomb()
    _wrap_changes(bomb)
    commands = by_name()
    for name, changes in faults.items():
        command = commands[name]

        def handler(ctx: Context, argv: list[bytes], _original: Any = command.handler, _changes: int = changes) -> Any:
            if any(b"FAULT" in word for word in argv):
                bomb.left = _changes
                if not _changes:
                    raise MistakeError
            try:
                reply = _original(ctx, argv)
            finally:
                bomb.left = None
            return reply

        object.__setattr__(command, "handler", handler)
