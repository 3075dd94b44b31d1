"""Processor time of one case: on the core in this process, or on a server process."""

from __future__ import annotations

import gc
import socket
import threading
import time
from pathlib import Path

import hiredis

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.protocol.replies import BLOCKED, NO_REPLY, Steps
from engine.settings.config import Config
from engine.wire.encode import encoded
from tests.growth.cases import Case, Words
from tests.servers import Running

NOW_US = 1_700_000_000_000_000


def on_core(case: Case, n: int) -> float:
    """Return the seconds that a command takes on a new core: all its steps, its reply, and closing its session."""
    core = Core(Config(), lambda most: 0)
    core.changes.recording = True
    core.allow_steps()
    session = core.open_session(NOW_US)
    for words in case.prepare(n):
        _run(core, session, words)
    words = case.command(n)
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        _run(core, session, words)
        core.close_session(session)
        return time.process_time() - began
    finally:
        gc.enable()


def _run(core: Core, session: Session, words: Words) -> None:
    reply = core.execute(session, words, NOW_US)
    while type(reply) is Steps:
        reply = core.go_on(session, reply, NOW_US)
    if reply is not BLOCKED and reply is not NO_REPLY:
        encoded(reply, 2)
    core.outbox.clear()
    core.changes.effects.clear()


def on_server(server: Running, case: Case, n: int) -> tuple[float, object]:
    """Return the seconds of processor time that a server process takes for a command, and the first reply."""
    with server.connect(600) as connection:
        _answers(connection, [[b"FLUSHALL"], [b"ACL", b"DELUSER", b"u"], *case.prepare(n)])
        began = _processor_time(server.pid)
        reply = _answers(connection, [case.command(n)])[0]
        return _processor_time(server.pid) - began, reply


def _processor_time(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _answers(connection: socket.socket, commands: list[Words]) -> list[object]:
    """Return the replies to commands that are sent together."""
    reader = hiredis.Reader()
    data = b"".join(hiredis.pack_command(tuple(words)) for words in commands)
    sending = threading.Thread(target=connection.sendall, args=(data,))
    sending.start()
    replies: list[object] = []
    while len(replies) < len(commands):
        reader.feed(connection.recv(1 << 20))
        while (reply := reader.gets()) is not False:
            replies.append(reply)
    sending.join()
    return replies
