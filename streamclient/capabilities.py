"""Capabilities of a server and its user, as observed by one connection and cached only there.

Each connection has its own `Capabilities`, since another connection may reach another server, or have other rights on
the same server. Some commands do not exist in Redis: before the first use of such a command, COMMAND INFO is sent to
find out whether the server has it. Other capabilities are tested once before their first use, or assumed until a
command is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakMethod

from streamclient.commands import Command

_MOST_SIZES = 200_000  # maximum number of streams in `sizes`; when it is reached, `sizes` is cleared


class Capabilities:
    """Observed capabilities of a server. `ask`, a method of the connection, sends commands and returns their replies.

    Only a weak reference to `ask` is kept, so that an unused connection is closed at once, not by the garbage
    collector.
    """

    def __init__(self, ask: Callable[[Sequence[Command]], list[Any]]) -> None:
        self._method = WeakMethod(ask)
        self._commands: dict[str, bool] = {}
        self._runs_scripts: bool | None = None
        self._stops_were_tried = False
        #: Whether the server may move staged rows into their stream; true until it refuses.
        self.moves_rows = True
        #: Whether XREAD may be used to find streams with new entries; true until it is refused.
        self.finds_changes = True
        #: Size of an entry in bytes, by stream.
        self.sizes: dict[str, int] = {}

    def _ask(self, *commands: Command) -> list[Any]:
        ask = self._method()
        assert ask is not None  # the connection is in use
        return ask(commands)

    def has(self, *names: str) -> bool:
        """Return whether the server has all of these commands of the engine; False if it refuses COMMAND INFO."""
        unknown = [name for name in names if name not in self._commands]
        if unknown:
            (reply,) = self._ask(("COMMAND", "INFO", *unknown))
            infos = reply if isinstance(reply, list) and len(reply) == len(unknown) else [None] * len(unknown)
            self._commands.update((name, bool(info)) for name, info in zip(unknown, infos, strict=True))
        return all(self._commands[name] for name in names)

    def mark_missing(self, name: str) -> None:
        """Record that the server does not have this command."""
        self._commands[name] = False

    def may_run_scripts(self) -> bool:
        """Return whether EVAL works. The first call tries EVAL, except on the engine."""
        if self._runs_scripts is None:
            self._runs_scripts = not self.has("PS.EXEC") and self._ask(("EVAL", "return 1", 0)) == [1]
        return self._runs_scripts

    def stops_at_errors(self) -> bool:
        """Return whether PS.EXEC works, which ends a transaction at the first error.

        The first call tries it outside a transaction, so that watched keys stay watched.
        """
        if not self._stops_were_tried and self.has("PS.EXEC"):
            self._stops_were_tried = True
            if "without MULTI" not in str(self._ask(("PS.EXEC",))[0]):
                self.mark_missing("PS.EXEC")
        return self.has("PS.EXEC")

    def learn_size(self, stream: str, size: int) -> None:
        """Record the size of one of the stream's entries, in bytes."""
        if len(self.sizes) >= _MOST_SIZES:
            self.sizes.clear()
        self.sizes[stream] = max(1, size)

    def learn_sizes(self, stream: str, reply: Sequence[Any]) -> None:
        """Record the entry size from a reply of XINFO STREAM, which contains the first and last entry."""
        self.learn_size(stream, max((sum(map(len, entry[1])) for entry in reply if isinstance(entry, list)), default=0))


def is_refused(refusal: str) -> bool:
    """Return whether a refusal says that the command is unknown or not permitted.

    If the command worked before, the server or the user's rights have changed.
    """
    return "unknown command" in refusal or refusal.startswith("NOPERM")
