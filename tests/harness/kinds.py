"""The servers that a contract test is run on, behind one interface.

``server.run`` and the other methods of a client act on its first connection; ``server.client()`` opens more.
``server.let_pass(ms)`` lets time pass: the core's clock is moved, for a process the test waits until the server's clock
says so.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tests.harness.clients import Client, CoreClient, SocketClient
from tests.harness.releases import NEWEST, Newest, Release
from tests.harness.replies import Reply, as_sent
from tests.servers import Running
from tests.waiting import DEADLINE, wait_for


class Clock:
    """A clock that stands still until a test moves it. Microseconds since the epoch."""

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self.now_us = now_us

    @property
    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self.now_us // 1000


class Server(abc.ABC):
    """A server under test."""

    kind: str
    proto: int
    #: The release whose behaviour it has.
    release: Release
    main: Client

    def __init__(self) -> None:
        self._clients: list[Client] = []
        self._undo: list[Callable[[], None]] = []

    # -- the first connection ---------------------------------------------------------------------------------------

    def run(self, *command: Any) -> Reply:
        return self.main.run(*command)

    def wire(self, *command: Any) -> bytes:
        return self.main.wire(*command)

    def expect(self, command: Any, reply: Any) -> None:
        self.main.expect(command, reply)

    def expect_error(self, command: Any, text: str) -> None:
        self.main.expect_error(command, text)

    def given(self, *commands: Any) -> None:
        """Run commands that set the scene; none may fail."""
        for command in commands:
            reply = self.run(*(command if isinstance(command, tuple) else (command,)))
            assert type(reply).__name__ != "Error", f"{command}: {reply}"

    # -- more -------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def connect(self) -> Client:
        """A new connection in this server's protocol."""

    @property
    def keeper(self) -> Client:
        """The connection that takes back what a test set, in whatever state a failed test left the others."""
        return self.main

    @abc.abstractmethod
    def let_pass(self, ms: int) -> None:
        """At least ``ms`` milliseconds pass."""

    @property
    @abc.abstractmethod
    def now(self) -> int:
        """The server's time in milliseconds since the epoch."""

    def client(self) -> Client:
        """One more connection, closed at the end of the test."""
        client = self.connect()
        self._clients.append(client)
        return client

    def since(self, text: str, valkey: str | None = None) -> bool:
        """Whether it has what came with Redis ``text``, and with Valkey ``valkey`` (None: never)."""
        return self.release.since(text, valkey)

    def newest(self, answer: Any, before: Mapping[str, Any], valkey: Mapping[str, Any] | None = None) -> Any:
        """What this server answers of what :class:`Newest` tells apart."""
        return Newest(answer, before, valkey or {}).of(self.release)

    def same(self, came: Reply, expected: Any) -> bool:
        """Whether a reply is what was expected, in this server's protocol."""
        return bool(came == as_sent(expected, self.proto, self.release))

    def config(self, name: str, value: object) -> None:
        """CONFIG SET for the rest of the test."""
        old = self.run("CONFIG", "GET", name)
        assert old, f"no setting {name}"
        before = next(iter(old.values())) if isinstance(old, dict) else old[1]
        self._undo.append(lambda: self.keeper.expect(("CONFIG", "SET", name, before), "OK"))
        self.expect(("CONFIG", "SET", name, value), "OK")

    def finish(self) -> None:
        """Close what the test opened and take back what it set."""
        for client in self._clients:
            with suppress(OSError):
                client.close()
        self._clients.clear()
        while self._undo:
            self._undo.pop()()


class CoreServer(Server):
    """The engine's core in this process, with a clock that the test moves."""

    kind = "core"
    release = NEWEST

    def __init__(self, proto: int) -> None:
        super().__init__()
        from engine.core.dispatch import Core
        from engine.core.protocol.replies import BLOCKED, NO_REPLY
        from engine.settings.config import Config
        from engine.wire.encode import encoded

        self._encoded = encoded
        self._silent = (BLOCKED, NO_REPLY)
        self.proto = proto
        self.clock = Clock()
        self.core = Core(Config(), lambda n: 0)
        self.core.changes.recording = True
        #: (database, argv) of everything that happened.
        self.effects: list[tuple[int, list[bytes]]] = []
        self._by_session: dict[int, CoreClient] = {}
        self.main = self.connect()

    @property
    def now(self) -> int:
        return self.clock.now

    def connect(self) -> CoreClient:
        client = CoreClient(self, self.proto)
        self._by_session[client.session.id] = client
        return client

    def close_session(self, client: CoreClient) -> None:
        """The client has gone."""
        if self._by_session.pop(client.session.id, None) is not None:
            self.core.close_session(client.session)

    def execute(self, client: CoreClient, argv: list[bytes]) -> None:
        """Run a command as the shell would: the caller's reply, then what it brought to others."""
        reply = self.core.execute(client.session, argv, self.clock.now_us)
        client.accept(self.encoded(client, reply))
        self._deliver()

    def encoded(self, client: CoreClient, reply: Any) -> bytes:
        """A reply's bytes; none where nothing is answered now."""
        client.proto = client.session.proto
        return b"" if any(reply is one for one in self._silent) else self._encoded(reply, client.proto)

    def _deliver(self) -> None:
        for session, reply in self.core.outbox:
            client = self._by_session.get(session.id)
            if client is not None:
                client.accept(self.encoded(client, reply))
        self.core.outbox.clear()
        self.effects += self.core.changes.effects
        self.core.changes.effects.clear()

    def let_pass(self, ms: int) -> None:
        end = self.clock.now_us + ms * 1000
        while True:
            due = [
                (session.waiter.wake_at, session.id, session)
                for session in self.core.sessions.blocked()
                if session.waiter.wake_at is not None and session.waiter.wake_at * 1000 <= end
            ]
            if not due:
                break
            wake_at, _, session = min(due, key=lambda item: item[:2])
            self.clock.now_us = max(self.clock.now_us, wake_at * 1000)
            self.core.expire_due(self.clock.now_us)
            self._deliver()
            self.core.wake(session, self.clock.now_us)
            self._deliver()
        self.clock.now_us = end
        self.core.tick(end)
        self.core.expire_due(end)
        self._deliver()


class ProcessServer(Server):
    """A server process; many tests share it, each begins with FLUSHALL."""

    def __init__(self, kind: str, running: Running, proto: int, release: Release) -> None:
        super().__init__()
        self.kind = kind
        self.running = running
        self.proto = proto
        self.release = release
        self.control = SocketClient(running.connect(), 2, None)
        self.main = self._open()
        self.main.expect("FLUSHALL", "OK")

    def _open(self) -> SocketClient:
        client = SocketClient(self.running.connect(), self.proto, self.control)
        client.release = self.release
        return client

    def connect(self) -> SocketClient:
        return self._open()

    @property
    def now(self) -> int:
        seconds, microseconds = self.control.run("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def let_pass(self, ms: int) -> None:
        end = self.now + ms
        wait_for(lambda: self.now > end, f"{ms} ms to pass", DEADLINE + ms / 1000)

    @property
    def keeper(self) -> Client:
        return self.control

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.main.close()
        # Blocked clients of this test must not be served in the next one.
        wait_for(lambda: len(self.control.client_list()) == 1, "the server to notice that the test's clients have gone")
        self.control.close()
