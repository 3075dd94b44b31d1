"""Work that can be suspended: a slow script pauses so that other clients get a reply and may stop it.

A script is one call into Lua, with a hook after a number of instructions. To serve other clients, the call must be
suspended with its stack while the event loop continues. So the work runs in a greenlet, which has its own stack in the
same thread, and is suspended and resumed only at explicit points. A thread would run concurrently with the event loop
on the core's data, and each script would cost two thread switches. A nested event loop inside the hook is not possible
with asyncio and uvloop.

One greenlet is reused for all work, because making one costs more than most scripts do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import scripting

if TYPE_CHECKING:
    from greenlet import greenlet


class Suspension:
    """Runner of one suspendable work at a time, for which it implements `engine.core.environment.host.Apart`."""

    def __init__(self) -> None:
        try:
            from greenlet import getcurrent, greenlet  # noqa: PLC0415 - needed only for scripts
        except ImportError:
            raise CommandError(scripting.NO_LUA) from None
        self._current: Callable[[], greenlet] = getcurrent
        self._stack: greenlet = greenlet(self._serve)
        self._caller: greenlet | None = None
        self._work: Callable[[], Reply] | None = None
        self._error: BaseException | None = None
        self.reply: Reply = None
        self.is_over = True

    def prepare(self, work: Callable[[], Reply]) -> Suspension:
        """Prepare new work; the previous work must have ended."""
        self._work, self._error, self.reply, self.is_over = work, None, None, False
        return self

    def go(self) -> bool:
        """Start or resume the work; return whether it has ended. An exception of the work is raised here."""
        self._caller = self._current()
        self._stack.switch()
        if self.is_over and self._error is not None:
            error, self._error = self._error, None
            raise error
        return self.is_over

    def pause(self) -> None:
        """Suspend the work, which calls this, until `go` is called again."""
        assert self._caller is not None
        self._caller.switch()

    def _serve(self) -> Any:
        """Loop of the greenlet: run one piece of work after another."""
        while True:
            work, self._work = self._work, None
            assert work is not None
            try:
                self.reply = work()
            except BaseException as error:  # noqa: BLE001 - it is raised by `go`
                self._error = error
            work = None
            self.is_over = True
            assert self._caller is not None
            self._caller.switch()
