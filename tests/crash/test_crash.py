"""The crash test: an engine under load is killed with SIGKILL at a random moment and restarted, repeatedly on one
directory.

CRASH_KILLS is the number of kills (with LONG_TESTS=1: 300), and CRASH_SEED repeats a run. With ``disk`` segments are
tiny and are written to segment files as soon as they are full.
"""

from __future__ import annotations

import os
import random
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hiredis
import pytest

from tests import servers
from tests.crash.model import Client
from tests.suite import long
from tests.suite.waiting import DEADLINE

KILLS = int(os.environ.get("CRASH_KILLS", "300" if long.FULL else "6"))
SEED = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
#: More clients than those whose replies are sent at once (`engine.shell.network.connection`).
_CLIENTS = 8
_NOTHING: Any = object()
_SHARED = b"shared"


@contextmanager
def engine(directory: Path, policy: str, storage: str) -> Iterator[servers.Running]:
    """Yield an engine on a permanent directory; an engine that still runs at the end is killed with SIGKILL."""
    rewrites = ("--auto-aof-rewrite-min-size", "20kb", "--auto-aof-rewrite-percentage", "50")
    flags = ("--dir", str(directory), "--appendonly", "yes", "--appendfsync", policy, *rewrites)
    if storage == "disk":
        flags += ("--stream-storage", "disk", "--stream-file-size", "16kb")
    module = "tests.servers.tiny_engine" if storage == "disk" else "engine"
    with servers.engine(*flags, module=module) as running:
        try:
            yield running
        finally:
            running.process.kill()


def command(argv: list[bytes]) -> bytes:
    return hiredis.pack_command(tuple(argv))


class Wire:
    """A connection that sends without waiting for replies."""

    def __init__(self, running: servers.Running) -> None:
        self.socket = running.connect()
        self.socket.setblocking(False)
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)

    def send(self, data: bytes) -> None:
        """Send data that fits into the socket's buffer."""
        self.socket.sendall(data)

    def replies(self) -> Iterator[Any]:
        """Yield the received replies; raise ConnectionError if the connection has ended."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError
        self._reader.feed(data)
        yield from iter(self._reader.gets, _NOTHING)

    def ask(self, argv: list[bytes]) -> Any:
        """Send a command and wait for its reply."""
        self.socket.setblocking(True)
        self.socket.settimeout(DEADLINE)
        self.socket.sendall(command(argv))
        while True:
            reply = self._reader.gets()
            if reply is not _NOTHING:
                return reply
            data = self.socket.recv(1 << 16)
            assert data, "the engine closed the connection"
            self._reader.feed(data)


def decoded(data: bytes) -> Any:
    reader = hiredis.Reader(notEnoughData=_NOTHING)
    reader.feed(data)
    return plain(reader.gets())


def plain(reply: Any) -> Any:
    """Return a reply with errors as pairs, so that equal errors compare equal."""
    if isinstance(reply, hiredis.ReplyError):
        return ("error", str(reply))
    return [plain(part) for part in reply] if isinstance(reply, list) else reply


def comparable(argv: list[bytes], reply: Any) -> Any:
    """Return the part of a reply that does not depend on the time of day, or on earlier queries."""
    value = decoded(reply) if isinstance(reply, bytes) and reply[:1] in b"*$:+-" else plain(reply)
    if argv[0] == b"XPENDING" and isinstance(value, list):
        return [[entry_id, consumer, count] for entry_id, consumer, _, count in value]
    if argv[:2] == [b"XINFO", b"CONSUMERS"] and isinstance(value, list):
        # Compare names as well: nothing else shows whether a consumer without pending entries exists.
        return [consumer[:4] for consumer in value]
    if argv[:2] == [b"XINFO", b"STREAM"] and isinstance(value, list):
        facts = dict(zip(value[::2], value[1::2], strict=True))
        return {
            name: facts[name]
            for name in (
                b"length",
                b"last-generated-id",
                b"max-deleted-entry-id",
                b"entries-added",
                b"groups",
                b"first-entry",
                b"last-entry",
            )
        }
    return value


class Worker:
    """A client that runs steps on its own keys, and sometimes adds an entry to the shared stream."""

    def __init__(self, client: Client, chooser: random.Random) -> None:
        self.client = client
        self.random = chooser
        self.wire: Wire | None = None
        #: Required value of each outstanding reply (None for the ID of a shared entry), whether it ends a step, and the
        #: mark.
        self.expected: deque[tuple[Any, bool, bytes]] = deque()
        #: Shared entries: sent marks, and ID and time of each acknowledged mark.
        self.sent_shared: set[bytes] = set()
        self.shared: dict[bytes, tuple[bytes, float]] = {}
        self.marks = 0
        self.acknowledged_at: list[float] = []

    def start(self, running: servers.Running) -> None:
        self.wire = Wire(running)
        self.expected.clear()
        self.acknowledged_at = []
        self.fill()

    def fill(self) -> None:
        """Send commands until a random number of replies is outstanding."""
        assert self.wire is not None
        out = []
        while len(self.expected) < self.random.choice((1, 4, 20)):
            if self.random.random() < 0.25:
                self.marks += 1
                mark = b"%d.%d" % (self.client.number, self.marks)
                self.sent_shared.add(mark)
                out.append(command([b"XADD", _SHARED, b"*", b"mark", mark]))
                self.expected.append((None, False, mark))
            elif self.random.random() < 0.01:
                out.append(command([b"BGREWRITEAOF"]))
                self.expected.append((_NOTHING, False, b""))
            else:
                step, replies = self.client.next_step()
                out += map(command, step)
                for number, reply in enumerate(replies, 1):
                    self.expected.append((decoded(reply), number == len(replies), b""))
        self.wire.send(b"".join(out))

    def work(self) -> None:
        """Check received replies and send more commands."""
        assert self.wire is not None
        for reply in self.wire.replies():
            wanted, ends_step, mark = self.expected.popleft()
            if mark:
                assert isinstance(reply, bytes), reply
                self.shared[mark] = (reply, time.monotonic())
            elif wanted is not _NOTHING:
                assert plain(reply) == wanted
                if ends_step:
                    self.client.acknowledged += 1
                    self.acknowledged_at.append(time.monotonic())
        self.fill()


def one_life(
    running: servers.Running, workers: list[Worker], seconds: float, enough: Callable[[], bool]
) -> tuple[list[bytes], float]:
    """Let the clients work for this many seconds and until ``enough``, then kill the engine.

    Return the marks that a waiting consumer got, and the time of the kill.
    """
    consumer = Wire(running)
    consumer.ask([b"XGROUP", b"CREATE", _SHARED, b"all", b"0", b"MKSTREAM"])
    consumer.socket.setblocking(False)
    read = command([b"XREADGROUP", b"GROUP", b"all", b"one", b"BLOCK", b"0", b"STREAMS", _SHARED, b">"])
    consumer.send(read)
    delivered: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(consumer.socket, selectors.EVENT_READ, None)
        for worker in workers:
            worker.start(running)
            assert worker.wire is not None
            selector.register(worker.wire.socket, selectors.EVENT_READ, worker)
        end = time.monotonic() + seconds
        deadline = end + DEADLINE
        killed = 0.0
        while selector.get_map():
            if not killed and time.monotonic() >= end and (enough() or time.monotonic() >= deadline):
                running.process.send_signal(signal.SIGKILL)
                killed = time.monotonic()
            for ready, _ in selector.select(max(end - time.monotonic(), 0.01)):
                try:
                    if ready.data is None:
                        for reply in consumer.replies():
                            delivered += [entry[0] for entry in reply[0][1]]
                            consumer.send(read)
                    else:
                        ready.data.work()
                except (ConnectionError, BrokenPipeError):
                    selector.unregister(ready.fileobj)
                    assert isinstance(ready.fileobj, socket.socket)
                    ready.fileobj.close()
    return delivered, killed


def check(running: servers.Running, workers: list[Worker], delivered: list[bytes], killed: float, policy: str) -> None:
    """Check that the engine has restored everything that it must."""
    wire = Wire(running)
    grace = 0.0 if policy == "always" else 1.5
    for worker in workers:
        sure = sum(1 for at in worker.acknowledged_at if policy == "always" or at < killed - grace)
        answers = [comparable(argv, wire.ask(argv)) for argv in worker.client.questions()]
        worker.client.settle(answers, comparable, sure)
    entries = {fields[1]: entry_id for entry_id, fields in wire.ask([b"XRANGE", _SHARED, b"-", b"+"]) or []}
    for worker in workers:
        for mark, (entry_id, at) in worker.shared.items():
            if policy == "always" or at < killed - grace:
                assert entries.get(mark) == entry_id, f"{mark!r} was acknowledged as {entry_id!r}"
        for mark in [mark for mark in entries if mark.startswith(b"%d." % worker.client.number)]:
            assert mark in worker.sent_shared
    last = max((number(entry_id) for entry_id in entries.values()), default=(0, 0))
    for worker in workers:
        before = [mark for mark, (entry_id, _) in worker.shared.items() if number(entry_id) < last]
        missing = [mark for mark in before if mark not in entries]
        assert not missing, "the restored commands are not a prefix of the history"
    if policy == "always":
        pending = {entry[0] for entry in wire.ask([b"XPENDING", _SHARED, b"all", b"-", b"+", b"1000000"])}
        assert set(delivered) <= pending, "the consumer's entries are pending"
    # Recreate the shared stream, so that it does not grow indefinitely.
    assert wire.ask([b"DEL", _SHARED]) in (0, 1)
    for worker in workers:
        worker.shared.clear()
        worker.sent_shared.clear()
    wire.socket.close()


def number(entry_id: bytes) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split(b"-")))


@pytest.mark.parametrize(
    ("policy", "share", "storage"),
    [("always", 2 / 3, "memory"), ("everysec", 1 / 3, "memory"), ("always", 1 / 7, "disk")],
    ids=["always", "everysec", "disk"],
)
def test_acknowledged_commands_survive_a_kill(policy, share, storage, tmp_path):
    """After a SIGKILL at a random moment, ``always`` restores every acknowledged command, and no rejected one.

    With ``everysec`` only the last 1.5 seconds may be missing, and the restored commands are a prefix of the history.
    """
    chooser = random.Random(SEED)
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - shown when the test fails
    workers = [Worker(Client(number, chooser.randrange(10**9)), chooser) for number in range(_CLIENTS)]
    delivered: list[bytes] = []
    killed = 0.0
    steps = 0
    lives = max(round(KILLS * share), 1) + 1
    files = False
    for life in range(lives):

        def enough(last: bool = life == lives - 1) -> bool:
            """Return whether the engine may be killed; in the last life, not before a segment file has existed."""
            nonlocal files
            files = files or storage == "memory" or any((tmp_path / "segments").glob("*.pss"))
            return files or not last

        with engine(tmp_path, policy, storage) as running:
            if life:
                check(running, workers, delivered, killed, policy)
            seconds = chooser.choice((0.005, 0.05, 0.1, 0.3)) * (1 + chooser.random())
            delivered, killed = one_life(running, workers, seconds, enough)
            steps += sum(worker.client.acknowledged for worker in workers)
    assert files, "no segment was written to the disk"
    assert steps > KILLS, "the clients ran too few commands"
