"""The servers for contract tests behind one interface, and server processes.

``server.run`` and the other methods of a client use its first connection; ``server.client()`` opens more.
``server.let_pass(ms)`` lets time pass: the core's clock is moved; for a process the test waits until the server's clock
has advanced.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tests.harness.clients import Client, SocketClient
from tests.harness.replies import Reply, as_sent
from tests.servers import Running
from tests.servers.releases import Newest, Release
from tests.suite.waiting import DEADLINE, wait_for


class Server(abc.ABC):
    """A server under test."""

    kind: str
    proto: int
    #: Release whose behaviour the server has.
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
        """Run commands that prepare a test; none of them may fail."""
        for command in commands:
            reply = self.run(*(command if isinstance(command, tuple) else (command,)))
            assert type(reply).__name__ != "Error", f"{command}: {reply}"

    # -- more -------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def connect(self) -> Client:
        """Return a new connection in this server's protocol."""

    @property
    def keeper(self) -> Client:
        """Return the connection that restores settings after a test, even if the test left other
        connections unusable.
        """
        return self.main

    @abc.abstractmethod
    def let_pass(self, ms: int) -> None:
        """Let at least ``ms`` milliseconds pass."""

    @property
    @abc.abstractmethod
    def now(self) -> int:
        """Return the server's time in milliseconds since the epoch."""

    def client(self) -> Client:
        """Return one more connection, which is closed at the end of the test."""
        client = self.connect()
        self._clients.append(client)
        return client

    def since(self, text: str, valkey: str | None = None) -> bool:
        """Return whether the server behaves as Redis ``text``, or is a Valkey of release ``valkey`` or later."""
        return self.release.since(text, valkey)

    def newest(self, answer: Any, before: Mapping[str, Any], valkey: Mapping[str, Any] | None = None) -> Any:
        """Return the reply of this server, given the newest one and those of other releases."""
        return Newest(answer, before, valkey or {}).of(self.release)

    def same(self, came: Reply, expected: Any) -> bool:
        """Return whether a reply is as expected in this server's protocol."""
        return bool(came == as_sent(expected, self.proto, self.release))

    def config(self, name: str, value: object) -> None:
        """Change a setting for the rest of the test."""
        old = self.run("CONFIG", "GET", name)
        assert old, f"no setting {name}"
        before = next(iter(old.values())) if isinstance(old, dict) else old[1]
        self._undo.append(lambda: self.keeper.expect(("CONFIG", "SET", name, before), "OK"))
        self.expect(("CONFIG", "SET", name, value), "OK")

    def finish(self) -> None:
        """Close the test's connections and restore its settings."""
        for client in self._clients:
            with suppress(OSError):
                client.close()
        self._clients.clear()
        while self._undo:
            self._undo.pop()()


class ProcessServer(Server):
    """A server process shared by many tests, each of which starts with FLUSHALL."""

    def __init__(self, kind: str, running: Running, proto: int, release: Release) -> None:
        super().__init__()
        self.kind = kind
        self.running = running
        self.proto = proto
        self.release = release
        self.control = SocketClient(running.connect(), 2, None)
        self._opened: set[int] = set()
        self.main = self._open()
        self.main.expect("FLUSHALL", "OK")

    def _open(self) -> SocketClient:
        client = SocketClient(self.running.connect(), self.proto, self.control)
        client.release = self.release
        self._opened.add(client.id)
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

    def _has_no_clients(self) -> bool:
        connected = {int(line.removeprefix("id=").split()[0]) for line in self.control.client_list()}
        return not connected & self._opened

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.main.close()
        # Wait until the clients are disconnected, so that blocked ones are not served in the next test. A process that
        # a test has ended, such as a worker of Spark, may keep a client for a while.
        wait_for(self._has_no_clients, "the server to notice that the test's clients have gone")
        self.control.close()
