"""Flags of EVAL, FCALL and their variants, derived from the declarations of the script that they run.

A function, or a script that starts with ``#!lua``, declares its flags. These flags are checked before it runs, like
those of a command: if writes are refused, so is a script that may write, even when MULTI queues it. Scripts without
declarations are checked only at each of their calls (``engine.core.scripting.calls``).
"""

from __future__ import annotations

from collections.abc import Callable

from engine.core.scripting.execution import Flags
from engine.core.table.registry import Command

#: Function that returns a script's declarations for the words of EVAL or FCALL; None if the script does not exist.
FlagsOf = Callable[[list[bytes]], Flags | None]


class Declared:
    """Flags from declarations. ``of_scripts`` is used for EVAL and EVALSHA, ``of_functions`` for FCALL."""

    def __init__(self, of_scripts: FlagsOf, of_functions: FlagsOf) -> None:
        self._by_name = {
            **dict.fromkeys(("eval", "eval_ro", "evalsha", "evalsha_ro"), of_scripts),
            **dict.fromkeys(("fcall", "fcall_ro"), of_functions),
        }

    def flags(self, command: Command, argv: list[bytes]) -> frozenset[str]:
        """Return the flags of a command that is called with the words ``argv``."""
        find = self._by_name.get(command.name)
        declaration = find(argv) if find is not None else None
        if declaration is None or not declaration.declared:
            return command.flags
        needs_memory = not (declaration.no_writes or declaration.allow_oom)
        has = {"write": not declaration.no_writes, "denyoom": needs_memory, "stale": declaration.allow_stale}
        return command.flags - {"stale", "may_replicate"} | {flag for flag, is_set in has.items() if is_set}
