"""The gate: nothing leaves in a turn that wrote before the disk has it, and all of it leaves then, in order."""

from __future__ import annotations

import asyncio
from typing import Any

from engine.shell.gate import Gate


class Transport:
    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def abort(self) -> None:
        self.events.append("aborted")

    def close(self) -> None:
        self.events.append("closed")


class Connection:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.transport: Any = Transport(self.events)

    def send(self, parts: list[bytes | memoryview]) -> None:
        self.events.append(b"".join(parts))


def turn(safe: bool) -> tuple[list[Any], list[Any], list[int]]:
    """What two connections see of a turn whose settling is ``safe`` or not, and what each saw at the settling."""
    one, two = Connection(), Connection()
    seen: list[int] = []

    async def run() -> None:
        def settle() -> bool:
            seen.append(len(one.events) + len(two.events))
            return safe

        gate = Gate(asyncio.get_running_loop(), settle)
        gate.shut()
        gate.shut()
        gate.hold(one, [b"a", b"b"])
        gate.hold(two, [b"c"])
        gate.hold(one, [b"d"])
        gate.hold_close(two)
        assert gate.is_shut
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not gate.is_shut

    asyncio.run(run())
    return one.events, two.events, seen


def test_all_leaves_after_one_settling():
    """Replies of a turn leave after the one settling of the turn, each connection's in order, closing comes last."""
    assert turn(True) == ([b"abd"], [b"c", "closed"], [0])


def test_nobody_is_told_what_may_be_lost():
    """Where the disk refused, neither yes nor no: the connections are cut off."""
    assert turn(False) == (["aborted"], ["aborted", "closed"], [0])
