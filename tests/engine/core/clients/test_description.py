"""The lines of CLIENT LIST."""

from __future__ import annotations

from engine.core.clients.session import Buffers, Session
from engine.core.clients.sessions import describe
from engine.core.dispatch import Core
from engine.settings.config import Config

NOW_US = 1_700_000_000_000_000


def fields(session: Session, *names: str) -> list[str]:
    line = dict(word.split("=", 1) for word in describe(session, NOW_US // 1000 + 4000).decode().split(" "))
    return [line[name] for name in names]


def test_tot_mem_is_the_size_of_waiting_commands_and_replies() -> None:
    """tot-mem is the size of the commands and replies that wait at the connection and the words queued by MULTI."""
    core = Core(Config())
    session = core.open_session(NOW_US)
    for line in (b"MULTI", b"PING abc"):
        core.execute(session, line.split(), NOW_US)
    session.buffers = lambda: Buffers(commands=100, replies=20, held_back=True)
    assert fields(session, "qbuf", "omem", "oll", "multi-mem", "tot-mem") == ["100", "20", "1", "7", "127"]
    assert fields(session, "flags", "age", "multi") == ["xb", "4", "1"]
