"""Live updates: samples, entries of a followed stream, and closing of dead and slow connections."""

from __future__ import annotations

import signal
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from pystreams.dashboard.export import SENT
from pystreams.dashboard.login import Rules
from pystreams.dashboard.run import Server, Watch, listen
from pystreams.dashboard.sampler import Sampler
from pystreams.dashboard.site import Part, site
from tests import servers
from tests.pystreams.dashboard.conftest import TOKEN, Dashboard, address_of, no_metrics
from tests.suite.waiting import wait_for

_SLOW_BODY = (
    b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


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


def _asked(*, more_body: bool = False) -> SimpleNamespace:
    return SimpleNamespace(scope={SENT: 1}, more_body=more_body, response_complete=False)


def test_inactive_connections_are_closed() -> None:
    """Connections that read nothing, or whose request is incomplete, are closed. Slow readers, and complete requests
    without unread data, stay.
    """
    watch = Watch()
    file = _asked()
    deaf, slow, mute, resting, loading, slow_body = map(
        _Connection, (0, 0, 0, 0, 0, 0), (_asked(), _asked(), None, _asked(), file, _asked(more_body=True))
    )
    deaf.waiting, slow.waiting, loading.waiting = 100, 1000, 100
    every = [deaf, slow, mute, resting, loading, slow_body]
    cut_at: dict[int, int] = {}
    for look in range(6):
        watch.check([each for each in every if not each.cut])
        slow.waiting -= 100
        file.scope[SENT] += look < 4
        cut_at |= {at: look for at, each in enumerate(every) if each.cut and at not in cut_at}
    assert cut_at == {0: 1, 2: 3, 4: 5, 5: 3}


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_samples_and_new_entries_are_asked_for(client: redis.Redis, dashboard: Dashboard) -> None:
    """The number of the last sample grows. New entries that match are returned in order, after the last known entry."""
    client.xadd("s", {"n": 0})
    first = dashboard.get("news")["number"]
    wait_for(lambda: dashboard.get("news")["number"] > first, "another sample")
    start = dashboard.get("tail", stream="s")
    assert (start["rows"], start["more"]) == ([], False)
    for at in range(4, 8):
        client.xadd("s", {"n": at}, id=f"9999999999999-{at}")
    found = dashboard.get("tail", stream="s", where="n>5", after=start["after"])
    assert [row["id"] for row in found["rows"]] == ["9999999999999-6", "9999999999999-7"]
    assert dashboard.get("tail", stream="s", after=found["after"]) == {**start, "after": found["after"], "skipped": 0}
    for at in range(250):
        client.xadd("s", {"n": at})
    many = dashboard.get("tail", stream="s", after=found["after"])
    assert (len(many["rows"]), many["skipped"], many["more"]) == (100, 100, True)
    assert dashboard.refused("tail", stream="s", where="n >") == (400, "INVALID_VALUE")


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
@pytest.mark.parametrize("sent", [b"", b"POST /api/login HTTP/1.1\r\n", _SLOW_BODY])
def test_slow_requests_do_not_lock_out_others(
    instance: servers.Running, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """More incomplete requests than the server has connections do not keep others from a page. They are closed, at the
    latest when the server ends, and logged as no error.
    """
    made = listen("127.0.0.1", 0)
    port = made.getsockname()[1]
    sampler = Sampler(address_of(instance.url), 0.05)
    app = site([Part(Rules(address_of(instance.url), TOKEN, False, True), sampler, no_metrics)], cookie="c")
    server = Server(app, connections=10)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [made]})
    thread.start()
    with ExitStack() as stack:
        try:
            wait_for(lambda: server.started, "the dashboard")
            slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(30)]
            for each in slow:
                with suppress(OSError):  # it may be closed already
                    each.sendall(sent)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
                assert answer.status == 200
            wait_for(lambda: len(server.server_state.connections) <= 10, "connections to be closed")
        finally:
            server.should_exit = True
            thread.join()
            made.close()
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


def test_a_hanging_server_is_reported() -> None:
    """A server that stops replying is reported, with the time since its last reply, until it replies again."""
    with servers.redis() as server:
        sampler = Sampler(address_of(server.url), 0.05)
        sampler.start()
        try:
            wait_for(lambda: sampler.state.problem is None, "the first sample")
            server.process.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            wait_for(lambda: sampler.state.problem is not None, "the problem to be reported")
            silent = round((time.monotonic() - stopped) * 1000)
            assert sampler.state.age_ms >= silent >= 1000
        finally:
            server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: sampler.state.problem is None, "the server to be back")
        sampler.stop()
