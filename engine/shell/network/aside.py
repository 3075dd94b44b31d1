"""Work that can be put aside: a script that takes long, so that other clients get an answer and may end it.

A script is one call into Lua, whose hook comes by every so many instructions. To let others speak then, the call must
stand still with all that is on its stack, and the event loop must go on. The work runs in a greenlet: a stack of its
own in the same thread, that is left and entered again only where it says so itself. A thread could do the same, but
would run beside the event loop with the core in its hands, and cost each script two changes of thread; a second event
loop inside the hook is nothing that asyncio and uvloop allow.

One greenlet is kept and used for all work, because making one costs more than most scripts do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import scripting

if TYPE_CHECKING:
    from greenlet import greenlet


class Aside:
    """One server's: one work at a time. It is :class:`engine.core.environment.host.Apart` of the present one."""

    def __init__(self) -> None:
        try:
            from greenlet import getcurrent, greenlet  # noqa: PLC0415 - only who runs scripts needs it
        except ImportError:
            raise CommandError(scripting.NO_LUA) from None
        self._current: Callable[[], greenlet] = getcurrent
        self._stack: greenlet = greenlet(self._serve)
        self._caller: greenlet | None = None
        self._work: Callable[[], Reply] | None = None
        self._error: BaseException | None = None
        self.reply: Reply = None
        self.is_over = True

    def take(self, work: Callable[[], Reply]) -> Aside:
        """Prepare new work; the last one is over."""
        self._work, self._error, self.reply, self.is_over = work, None, None, False
        return self

    def go(self) -> bool:
        """Begin the work, or go on with it: whether it is over. What it raises is raised here."""
        self._caller = self._current()
        self._stack.switch()
        if self.is_over and self._error is not None:
            error, self._error = self._error, None
            raise error
        return self.is_over

    def pause(self) -> None:
        """Called by the work itself: let whoever called :meth:`go` go on, until it is called again."""
        assert self._caller is not None
        self._caller.switch()

    def _serve(self) -> Any:
        """The stack's life: one work after the other."""
        while True:
            work, self._work = self._work, None
            assert work is not None
            try:
                self.reply = work()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever called `go`
                self._error = error
            work = None
            self.is_over = True
            assert self._caller is not None
            self._caller.switch()
