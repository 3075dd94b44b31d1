"""A core with its master role, without sockets or threads: the test decides when work is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from engine.core.clients.session import AsReplica, Session
from engine.core.dispatch import Core
from engine.settings.config import Config
from engine.shell.replication.history import History
from engine.shell.replication.master import Master
from tests.faults.disk import Disk


class Transport:
    """A transport that notes whether it was aborted."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


class FakePeer:
    """A replica's connection that stores everything it is sent."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.transport: Any = Transport()
        self.clogged = False
        self.got = b""
        self.received = 0

    def send(self, parts: list[Any]) -> None:
        self.got += b"".join(map(bytes, parts))

    def give_up(self, size: int) -> None:
        self.transport.abort()


class World:
    """A core with its master role and a thread for files that works on request."""

    def __init__(self, directory: Path, *flags: str) -> None:
        config = Config()
        config.load(["--dir", str(directory), *flags])
        self.core = Core(config)
        self.connections: dict[int, FakePeer] = {}
        #: Whether `fail` was called, and with which errors.
        self.failed = False
        self.errors: list[BaseException] = []
        self.work: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []
        self.disk = Disk()
        #: The master's monotonic clock.
        self.seconds = 1000.0
        history = History(lambda: b"a" * 40, 1000)
        self.master = Master(
            self.core,
            self,
            history,
            asyncio.get_running_loop(),
            lambda write, done: self.work.append((write, done)),
            lambda feeding: None,
            self.disk,
            lambda: self.seconds,
        )
        self.caller = self.core.open_session(1)
        self.now = 1

    def settle(self) -> None:
        """Feed the effects of commands, as the runner does."""
        effects = self.core.changes.effects[:]
        self.core.changes.effects.clear()
        if effects and self.core.changes.recording:
            self.master.feed(effects)

    def fail(self, error: BaseException) -> None:
        self.failed = True
        self.errors.append(error)

    def finish(self, session: Session) -> None:
        """Do nothing: clients are not connected."""

    def run(self, *words: bytes) -> None:
        """Run a client's command."""
        self.core.execute(self.caller, [*words], self.now)
        self.settle()

    async def join(self, *capabilities: bytes, rdb_only: bool = False, clogged: bool = False) -> FakePeer:
        """Connect a replica that requests all data, and return it. `write_file` lets the thread write its file."""
        session = self.core.open_session(1)
        session.as_replica = AsReplica(capabilities=frozenset(capabilities), rdb_only=rdb_only)
        peer = self.connections[session.id] = FakePeer(session)
        peer.clogged = clogged
        self.master.synchronise(session, b"?", -1)
        await turns()
        return peer

    async def write_file(self) -> None:
        """Let the thread write a file, which the event loop then sends."""
        write, done = self.work.pop(0)
        error: OSError | None = None
        try:
            write()
        except OSError as problem:
            error = problem
        done(error)
        await turns()

    def states(self) -> list[str]:
        """Return the states of the replicas, as INFO shows them."""
        lines = dict(self.master.info())
        return [lines[f"slave{number}"].split(",")[2][6:] for number in range(lines["connected_slaves"])]


async def turns(count: int = 20) -> None:
    """Run the due callbacks of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def in_loop(story: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Return a synchronous test that runs an asynchronous one in a new event loop."""

    def test(tmp_path: Path) -> None:
        asyncio.run(story(tmp_path))

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test
