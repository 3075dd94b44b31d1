"""The engine's core in this process as a server under test, with a clock that the test moves."""

from __future__ import annotations

from typing import Any

from engine.core.dispatch import Core
from engine.core.protocol.replies import BLOCKED, NO_REPLY
from engine.settings.config import Config
from engine.wire.encode import encoded
from tests.harness.clients import Client
from tests.harness.kinds import Server
from tests.harness.replies import Decoder, Reply, words
from tests.servers.releases import NEWEST
from tests.suite.waiting import DEADLINE


class Clock:
    """A clock that only the test moves, in microseconds since the epoch."""

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self.now_us = now_us

    @property
    def now(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return self.now_us // 1000


class CoreClient(Client):
    """A session of a core in this process. Its replies pass through the encoder and hiredis, as over a socket."""

    def __init__(self, server: CoreServer, proto: int) -> None:
        self._server = server
        self.session = server.core.open_session(server.clock.now_us)
        self.session.proto = self.proto = proto
        self._decoder = Decoder()
        self._pending: list[bytes] = []
        self.last_bytes = b""

    def send(self, *command: Any) -> None:
        self._server.execute(self, words(command))

    def accept(self, data: bytes) -> None:
        """Take bytes for this client."""
        if data:
            self._pending.append(data)

    def receive(self, deadline: float = DEADLINE) -> Reply:
        if not self._pending:
            raise TimeoutError("nothing has come, and in process nothing will come by itself")
        self.last_bytes = self._pending.pop(0)
        self._decoder.feed(self.last_bytes)
        complete, value = self._decoder.next()
        assert complete, f"not a complete reply: {self.last_bytes!r}"
        return value

    def expect_nothing(self) -> None:
        assert not self._pending, f"unexpected: {self._pending!r}"

    def poll(self) -> tuple[bool, Reply]:
        return (True, self.receive()) if self._pending else (False, None)

    def blocked(self) -> bool:
        return self.session.waiter is not None

    def close(self) -> None:
        self._server.close_session(self)


class CoreServer(Server):
    """The engine's core in this process, with a clock that the test moves."""

    kind = "core"
    release = NEWEST

    def __init__(self, proto: int) -> None:
        super().__init__()
        self.proto = proto
        self.clock = Clock()
        self.core = Core(Config())
        self.core.changes.recording = True
        #: Effects of all commands so far: database index and arguments.
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
        """Remove the session of a disconnected client."""
        if self._by_session.pop(client.session.id, None) is not None:
            self.core.close_session(client.session)

    def execute(self, client: CoreClient, argv: list[bytes]) -> None:
        """Run a command as the shell would; deliver the caller's reply, then the messages for other clients."""
        reply = self.core.execute(client.session, argv, self.clock.now_us)
        client.accept(self.encoded(client, reply))
        self._deliver()

    def encoded(self, client: CoreClient, reply: Any) -> bytes:
        """Return a reply's bytes, or empty bytes if there is no reply yet."""
        client.proto = client.session.proto
        return b"" if reply is BLOCKED or reply is NO_REPLY else encoded(reply, client.proto)

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
