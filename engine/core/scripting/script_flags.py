"""The flags that EVAL, FCALL and their kin have for what the script they run says of itself.

A script with a first line ``#!lua``, and a function, are judged before they run as a command with such flags would be:
one that may write is refused where writing is, also while it is queued in MULTI. Scripts without that line are judged
by what they call (:mod:`engine.core.scripting.calls`).
"""

from __future__ import annotations

from collections.abc import Callable

from engine.core.scripting.execution import Flags
from engine.core.table.registry import Command

#: What a script says of itself, from the words of the command that would run it; None where there is no such script.
FlagsOf = Callable[[list[bytes]], Flags | None]


class Declared:
    """``of_scripts`` is asked about EVAL and EVALSHA, ``of_functions`` about FCALL."""

    def __init__(self, of_scripts: FlagsOf, of_functions: FlagsOf) -> None:
        self._by_name = {
            **dict.fromkeys(("eval", "eval_ro", "evalsha", "evalsha_ro"), of_scripts),
            **dict.fromkeys(("fcall", "fcall_ro"), of_functions),
        }

    def flags(self, command: Command, argv: list[bytes]) -> frozenset[str]:
        """The flags of a command with these words."""
        find = self._by_name.get(command.name)
        said = find(argv) if find is not None else None
        if said is None or not said.declared:
            return command.flags
        needs_memory = not (said.no_writes or said.allow_oom)
        has = {"write": not said.no_writes, "denyoom": needs_memory, "stale": said.allow_stale}
        return command.flags - {"stale", "may_replicate"} | {flag for flag, is_set in has.items() if is_set}
