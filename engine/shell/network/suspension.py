"""Work that can be suspended: a slow script pauses so that other clients get a reply and may stop it.

A script is one call into Lua, which calls a hook at intervals. To serve other clients, the call must be suspended with
its stack while the event loop continues. So the work runs in a greenlet, which has its own stack in the same thread,
and is suspended and resumed only at explicit points. A thread would run concurrently with the event loop on the core's
data, and each script would cost two thread switches. A nested event loop inside the hook is not possible with asyncio
and uvloop.

One greenlet is reused for all work, because making one costs more than most scripts do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.core.environment.host import SUSPENDED
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import scripting

if TYPE_CHECKING:
    from greenlet import greenlet


class Suspension:
    """The stack for suspendable work, as an `engine.core.environment.host.Stack`."""

    def __init__(self) -> None:
        try:
            from greenlet import getcurrent, greenlet  # noqa: PLC0415 - needed only for scripts
        except ImportError:
            raise CommandError(scripting.NO_LUA) from None
        self._caller: greenlet = getcurrent()
        self._stack: greenlet = greenlet(self._serve)
        self._reply: Reply = SUSPENDED
        self._error: BaseException | None = None

    def run(self, work: Callable[[], Reply]) -> Reply:
        """Run ``work`` until it ends or pauses; return its reply, or SUSPENDED. The previous work must have ended."""
        return self.resume(work)

    def resume(self, work: Callable[[], Reply] | None = None) -> Reply:
        """Resume the suspended work, or start ``work``; return the reply, or SUSPENDED if the work pauses."""
        self._stack.switch(work)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        reply, self._reply = self._reply, SUSPENDED
        return reply

    def pause(self) -> None:
        """Suspend the work that calls this method until `resume` is called."""
        self._caller.switch()

    def _serve(self, work: Callable[[], Reply]) -> Any:
        """Loop of the greenlet: run one piece of work after another."""
        while True:
            try:
                self._reply = work()
            except BaseException as error:  # noqa: BLE001 - `resume` raises it
                self._error = error
            del work
            work = self._caller.switch()
