"""A runner and its clients without an event loop or sockets: the test runs each iteration and sees what is sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from engine.core.dispatch import Core
from engine.core.keyspace.changes import Effects
from engine.settings.config import Config
from engine.shell.durability.log import Log as EngineLog
from engine.shell.network.runner import Client, Runner


class Turns:
    """An event loop that runs one iteration on request."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()

    def call_soon(self, work: Callable[..., None], *words: Any) -> None:
        self._soon.append(lambda: work(*words))

    def call_later(self, delay: float, work: Callable[..., None], *words: Any) -> asyncio.TimerHandle:
        """Ignore the call: no time passes."""
        return asyncio.TimerHandle(0, work, words, cast(asyncio.AbstractEventLoop, self))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: see ``call_later``."""

    def get_debug(self) -> bool:
        return False

    def run(self) -> bool:
        """Run one iteration; return whether there was work."""
        for _ in range(count := len(self._soon)):
            self._soon.popleft()()
        return bool(count)


class Socket:
    """A transport that stores written bytes."""

    def __init__(self) -> None:
        self.written = b""
        self.ended = ""
        self.reading = True
        #: Number of written bytes that have not been read yet.
        self.waiting = 0

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Do nothing: these limits do not affect the tests."""

    def get_extra_info(self, name: str) -> Any:
        return None

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        data, self.written = self.written, b""
        return data


class Log:
    """The log of a server that stores nothing; ``on_effects`` is called with the effects of commands."""

    def __init__(self) -> None:
        self.on_effects: Callable[[Effects], object] = lambda effects: None

    def append(self, effects: Effects) -> bool:
        self.on_effects(effects)
        return False

    def flush(self) -> bool:
        return True


def runner_of(core: Core, loop: Any, log: Log | None = None) -> Runner:
    """Return a runner of a core that stores nothing."""
    return Runner(core, loop, cast(EngineLog, log or Log()))


class Shell:
    """A runner with its core, whose clients have no sockets."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.log = Log()
        self.runner = runner_of(Core(Config()), self.turns, self.log)

    def client(self) -> tuple[Client, Socket]:
        connection, transport = Client(self.runner), Socket()
        connection.connection_made(cast(asyncio.Transport, transport))
        return connection, transport
