"""The batch of replies: replies that are sent at once, at the end of the iteration, or after an fsync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from engine.shell.network.connection import ReplyBatch


class Transport:
    def __init__(self, events: list[Any]) -> None:
        self.events = events
        self.ended = False

    def is_closing(self) -> bool:
        return self.ended

    def abort(self) -> None:
        self.ended = True
        self.events.append("aborted")

    def close(self) -> None:
        self.ended = True
        self.events.append("closed")


class Connection:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.transport: Any = Transport(self.events)
        self.unsent: list[bytes | memoryview] = []
        self.unsent_size = 0

    def release(self) -> None:
        parts, size = self.unsent, self.unsent_size
        self.unsent, self.unsent_size = [], 0
        assert size == sum(map(len, parts))
        if parts and not self.transport.ended:
            self.events.append(b"".join(parts))


Work = Callable[[ReplyBatch, Connection, Connection], None]


def iteration(work: Work, settle: Callable[[], bool] = lambda: True) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what each of two connections has received after the iteration, and both when ``work`` returned."""
    first, second = Connection(), Connection()
    at_once: list[Any] = []

    async def run() -> None:
        batch = ReplyBatch(asyncio.get_running_loop(), settle)
        work(batch, first, second)
        at_once.extend(first.events + second.events)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not batch.is_held

    asyncio.run(run())
    return first.events, second.events, at_once


def send(batch: ReplyBatch, connection: Connection, *parts: bytes) -> None:
    batch.send(connection, list(parts), sum(map(len, parts)))


def held_work(batch: ReplyBatch, first: Connection, second: Connection) -> None:
    batch.hold()
    batch.hold()
    send(batch, first, b"a", b"b")
    send(batch, second, b"c" * 100_000)
    send(batch, first, b"d")
    batch.close(second)
    assert batch.is_held


def test_held_replies_are_sent_after_one_settling():
    """`settle` is called exactly once; then each connection gets its held replies in order, and closing ones close."""
    settled: list[bool] = []

    def settle() -> bool:
        settled.append(True)
        return True

    assert iteration(held_work, settle) == ([b"abd"], [b"c" * 100_000, "closed"], [])
    assert settled == [True]


def test_a_failed_write_closes_the_connections():
    """If the disk rejects the write, clients get neither success nor error: their connections are closed."""
    assert iteration(held_work, lambda: False) == (["aborted"], ["aborted", "closed"], [])


def crowd(batch: ReplyBatch) -> None:
    """Serve ten other clients five times."""
    others = [Connection() for _ in range(10)]
    for _ in range(5):
        for other in others:
            send(batch, other, b"something")


def test_many_clients_get_their_replies_at_the_end():
    """Replies to many clients that are served in one iteration wait for its end."""

    def work(batch: ReplyBatch, first: Connection, second: Connection) -> None:
        for _ in range(2):
            crowd(batch)
            send(batch, first, b"a")
            send(batch, second, b"b")

    assert iteration(work) == ([b"aa"], [b"bb"], [])


def test_long_replies_do_not_wait():
    """With many clients a long reply is still sent immediately, as are a client's short replies with a large total."""

    def work(batch: ReplyBatch, first: Connection, second: Connection) -> None:
        crowd(batch)
        send(batch, first, b"a" * 100_000)
        for number in range(3):
            send(batch, second, b"%d" % number * 30_000)

    expected = b"0" * 30_000 + b"1" * 30_000 + b"2" * 30_000
    assert iteration(work) == ([b"a" * 100_000], [expected], [b"a" * 100_000, expected])


def test_with_many_clients_an_iteration_is_settled_once():
    """If replies wait for the end of the iteration, their effects are settled once, at that end."""
    settled: list[bool] = []

    def settle() -> bool:
        settled.append(True)
        return True

    def work(batch: ReplyBatch, first: Connection, second: Connection) -> None:
        assert not batch.hold_if_crowded()
        send(batch, first, b"a")
        crowd(batch)
        batch.end_iteration()
        assert not settled
        for connection in (first, second):
            assert batch.hold_if_crowded()
            send(batch, connection, b"b" * 100_000)

    long = b"b" * 100_000
    assert iteration(work, settle) == ([b"a", long], [long], [b"a"])
    assert settled == [True]
