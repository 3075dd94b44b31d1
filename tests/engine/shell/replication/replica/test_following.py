"""A replica without sockets: its reaction to a core that fails while it applies the stream."""

from __future__ import annotations

import asyncio

from engine.core.clients.session import Session
from engine.core.dispatch import Core, FatalError
from engine.shell.replication.history import History
from engine.shell.replication.replica.link import MasterLink
from engine.shell.replication.replica.replica_role import ReplicaRole
from tests.engine.shell.replication.replica.scripted import full
from tests.harness.replay import new_core

#: An RDB file without keys and without a checksum.
EMPTY = b"REDIS0010\xff" + bytes(8)
_SET = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n%b\r\n"


class Process:
    """A stand-in for the replica's process that notes a request to exit."""

    def __init__(self) -> None:
        self.failed = False
        self.errors: list[BaseException] = []

    def settle(self) -> None:
        """Do nothing: there are no clients."""

    def fail(self, error: BaseException) -> None:
        self.failed = True
        self.errors.append(error)

    def finish(self, session: Session) -> None:
        """Do nothing: there are no clients."""


class Nobody:
    """A stand-in for the master role, without replicas."""

    confirmed = 0

    def __init__(self, history: History) -> None:
        self._history = history

    def send(self, block: bytes) -> None:
        self._history.feed(block)

    def cut_off_all(self) -> None:
        """Do nothing: there are no replicas."""

    def start_following(self, *, keep_replicas: bool) -> None:
        """Do nothing: there are no replicas."""

    def start_leading(self) -> None:
        """Do nothing: there are no replicas."""


def test_an_unexpected_error_stops_the_replica(tmp_path, monkeypatch):
    """An error within a command of the master ends the process, because the data may be half changed.

    No further command runs, nothing is acknowledged beyond the error, and the master's stream is not reported as
    invalid.
    """
    ran: list[bytes] = []
    run = Core.execute

    def execute(core: Core, session: Session, argv: list[bytes], now: int) -> object:
        ran.append(argv[-1])
        if argv[-1] == b"2":
            raise FatalError("SET", session_id=session.id) from ValueError("nobody has thought of this")
        return run(core, session, argv, now)

    monkeypatch.setattr(Core, "execute", execute)
    monkeypatch.setattr(MasterLink, "open", lambda *_: None)

    async def story() -> None:
        core, process = new_core(), Process()
        core.config.put("dir", str(tmp_path).encode())
        history = History(lambda: b"b" * 40, 1000)
        replica = ReplicaRole(core, process, Nobody(history), history, 1)
        replica.follow(b"127.0.0.1", 2)
        await asyncio.sleep(0)
        replica.connected()
        replica.received(b"+PONG\r\n" + 3 * b"+OK\r\n" + full(EMPTY, 100) + _SET % b"1")
        for _ in range(50):
            await asyncio.sleep(0)
        assert (replica.is_up, ran, history.offset) == (True, [b"1"], 100 + len(_SET % b"1"))
        replica.received(_SET % b"2" + _SET % b"3")
        for _ in range(50):
            await asyncio.sleep(0)
        replica.received(_SET % b"4")
        for _ in range(50):
            await asyncio.sleep(0)
        assert ran == [b"1", b"2"]
        assert [type(error) for error in process.errors] == [FatalError]
        assert history.offset == 100 + len(_SET % b"1")
        assert replica.trouble == ""
        replica.stop()

    asyncio.run(story())
