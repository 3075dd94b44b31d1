"""Live updates: samples, entries of a followed stream, and closing of dead connections."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from pystreams.dashboard.api import live
from pystreams.dashboard.api.login import Rules
from pystreams.dashboard.api.requests.answers import SENT
from pystreams.dashboard.app import run
from pystreams.dashboard.app.run import Server, Watch, listen
from pystreams.dashboard.app.site import Part, site
from pystreams.dashboard.sampling import sampler as sampler_module
from pystreams.dashboard.sampling.sampler import Sampler
from tests import servers
from tests.pystreams.dashboard.conftest import TOKEN, address_of, no_metrics
from tests.suite.waiting import wait_for


@dataclass(eq=False)
class _Connection:
    """A connection of the HTTP server: number of unread bytes, and the open request if there is one."""

    waiting: int = 0
    cycle: object | None = None
    cut: bool = False
    transport: Any = field(init=False)

    def __post_init__(self) -> None:
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.cut = True


def test_inactive_connections_are_closed() -> None:
    """Connections that read nothing or request nothing are closed. Slow readers, and open requests without unread data,
    stay.
    """
    watch = Watch()
    file = SimpleNamespace(scope={SENT: 1})
    deaf, slow, mute, resting, loading = (_Connection(cycle=asked) for asked in (1, 1, None, 1, file))
    deaf.waiting, slow.waiting, loading.waiting = 100, 1000, 100
    every = [deaf, slow, mute, resting, loading]
    cut_at: dict[int, int] = {}
    for look in range(6):
        watch.check([each for each in every if not each.cut])
        slow.waiting -= 100
        file.scope[SENT] += look < 4
        cut_at |= {at: look for at, each in enumerate(every) if each.cut and at not in cut_at}
    assert cut_at == {0: 1, 2: 3, 4: 5}


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_samples_and_entries_are_sent_as_events(
    instance: servers.Running, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, and entries of a followed stream that match, are sent in order; a browser that never reads is
    disconnected.
    """
    monkeypatch.setattr(run, "_CHECK_SECONDS", 0.1)
    monkeypatch.setattr(live, "_PAUSE", 0.01)
    client.xadd("s", {"n": 0})
    made = listen("127.0.0.1", 0)
    port = made.getsockname()[1]
    address = address_of(instance.url)
    sampler = Sampler(address, 0.05)
    server = Server(site([Part(Rules(address, TOKEN, False, True), sampler, no_metrics)], cookie="c"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [made]})
    thread.start()
    try:
        wait_for(lambda: server.started and sampler.state.number, "the dashboard")
        cookie = _log_in(port)
        with (
            _asked(port, "/api/events", cookie) as samples,
            _asked(port, "/api/tail?stream=s&where=n%3E5", cookie) as tail,
        ):
            first, second = _next(samples)["number"], _next(samples)["number"]
            assert second > first
            assert _next(tail)["rows"] == []
            for at in range(4, 8):
                client.xadd("s", {"n": at}, id=f"9999999999999-{at}")
            found: list[str] = []
            while len(found) < 2:  # Events without rows, about skipped entries, may come first.
                found += [row["id"] for row in _next(tail)["rows"]]
            assert found == ["9999999999999-6", "9999999999999-7"]
        with _asked(port, "/api/tail?stream=s", cookie, buffer=4096):
            wait_for(lambda: len(server.server_state.connections) == 1, "the other connections to end")
            ended = threading.Event()
            thread_of_entries = threading.Thread(target=_flood, args=(instance, ended))
            thread_of_entries.start()
            try:
                wait_for(lambda: not server.server_state.connections, "the connection to be cut")
            finally:
                ended.set()
                thread_of_entries.join()
    finally:
        server.should_exit = True
        thread.join()
        made.close()


def _flood(instance: servers.Running, ended: threading.Event) -> None:
    with redis.Redis(host=instance.host, port=instance.port) as client:
        while not ended.is_set():
            pipe = client.pipeline(transaction=False)
            for _ in range(100):
                pipe.xadd("s", {"v": "x" * 1500}, maxlen=1000)
            pipe.execute()


def _log_in(port: int) -> str:
    body = json.dumps({"token": TOKEN})
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        head = "POST /api/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return next(line.split(": ")[1].split(";")[0] for line in answer.splitlines() if line.startswith("set-cookie"))


def _asked(port: int, path: str, cookie: str, buffer: int = 0) -> socket.socket:
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
    return connection


def _next(connection: socket.socket) -> dict[str, Any]:
    """Return the data of the next event."""
    line = b""
    while not (line.startswith(b"data: ") and line.endswith(b"\n")):
        line = b"" if line.endswith(b"\n") else line
        line += connection.recv(1)
    document: dict[str, Any] = json.loads(line[len(b"data: ") :])
    return document


def test_a_failing_tail_reports_the_error_and_ends() -> None:
    """If reading fails, the event stream sends the failure and ends."""

    async def read_new() -> tuple[None, bool]:
        raise OSError("gone")

    async def events() -> list[bytes]:
        return [
            each
            async for each in live.tail(read_new, {"rows": []}, lambda: True, lambda failure: {"message": str(failure)})
        ]

    assert asyncio.run(events()) == [
        live.event("entries", {"rows": []}),
        live.event("failure", {"message": "gone"}),
    ]


def test_a_hanging_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops replying is reported, with the time since its last reply, until it replies again."""
    monkeypatch.setattr(sampler_module, "_ANSWER_SECONDS", 0.3)
    with servers.redis() as server:
        sampler = Sampler(address_of(server.url), 0.05)
        sampler.start()
        try:
            wait_for(lambda: sampler.state.problem is None, "the first sample")
            server.process.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            wait_for(lambda: sampler.state.problem is not None, "the problem to be reported")
            silent = round((time.monotonic() - stopped) * 1000)
            assert sampler.state.age_ms >= silent >= 300
        finally:
            server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: sampler.state.problem is None, "the server to be back")
        sampler.stop()
