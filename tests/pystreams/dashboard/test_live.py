"""Slow connections, and a server that hangs."""

from __future__ import annotations

import signal
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress

import pytest

from pystreams.dashboard.login import Rules
from pystreams.dashboard.run import Part, Server, listen, site
from pystreams.dashboard.sampler import Sampler
from tests import servers
from tests.pystreams.dashboard.conftest import TOKEN, address_of
from tests.suite.waiting import wait_for

_SLOW_BODY = (
    b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


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
    app = site([Part(Rules(address_of(instance.url), TOKEN, False, True), sampler)], cookie="c")
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
