"""Companions of the engine: their settings, and when they are started and stopped."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import pytest
import redis

from engine.settings.config import Config
from engine.shell.companions import supervisor
from engine.shell.companions.connection_options import connection_options
from engine.shell.companions.supervisor import Supervisor
from engine.shell.companions.table import ROWS, Row
from engine.shell.observation.log_lines import LOG
from tests import servers
from tests.suite.waiting import wait_for

# The program writes its settings and process ID to a file, prints a line, and exits when its input closes.
_PROGRAM = """
import os, pathlib, sys
line = sys.stdin.readline()
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()} {line}")
print("started\\x1b[31m", file=sys.stderr, flush=True)
sys.stdin.read()
"""


class Received:
    """The settings received by the processes of a companion, in order."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> list[tuple[int, dict[str, str]]]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [(int(line.split(" ", 1)[0]), json.loads(line.split(" ", 1)[1])) for line in lines]

    def wait_for(self, options: dict[str, str], *but: int) -> int:
        """Wait until the last process has these settings and an ID that is not in ``but``; return its ID."""

        def found() -> int:
            pid, received = (self.all() or [(0, {})])[-1]
            return pid if received == options and pid not in but else 0

        return wait_for(found, f"a process with {options}")


@contextmanager
def _supervised(config: Config, path: Path) -> Iterator[Received]:
    def command(row: Row, config: Config) -> list[str]:
        return [sys.executable, "-S", "-c", _PROGRAM, str(path)]

    made = Supervisor(ROWS[0], config, lambda: {"url": "redis://here"}, command)
    made.start()
    try:
        yield Received(path)
    finally:
        made.request_stop()
        made.wait()


def _set(config: Config, **values: str) -> None:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()]
    assert config.change(pairs) is None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_companion_runs_while_its_port_is_set(tmp_path: Path) -> None:
    """CONFIG SET of its directives starts, restarts and stops a companion, which receives the current login."""
    config = Config()
    with _supervised(config, tmp_path / "received") as received:
        assert received.all() == []
        _set(config, requirepass="hush", metrics_port="9121")
        first = received.wait_for({"url": "redis://here", "password": "hush"})
        _set(config, metrics_user="reader", metrics_password="other")
        second = received.wait_for({"url": "redis://here", "user": "reader", "password": "other"})
        wait_for(lambda: not _runs(first), "the end of the first process")
        _set(config, metrics_port="0")
        wait_for(lambda: not any(_runs(pid) for pid, _ in received.all()), "the end of all processes")
        _set(config, metrics_port="9121")
        third = received.wait_for({"url": "redis://here", "user": "reader", "password": "other"}, second)
    assert not _runs(third)


def test_a_companion_that_exits_is_started_again_after_a_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A companion that exits is started again after a growing delay.

    The log has its exit status and its output without control characters, but not its password.
    """
    monkeypatch.setattr(supervisor, "_FIRST_REST", 0.01)
    monkeypatch.setattr(LOG, "propagate", True)
    config = Config()
    config.put("metrics-port", b"9121")
    config.put("requirepass", b"hush")
    with caplog.at_level(logging.INFO, LOG.name), _supervised(config, tmp_path / "received") as received:
        options = {"url": "redis://here", "password": "hush"}
        last = received.wait_for(options)
        for _ in range(3):
            os.kill(last, signal.SIGKILL)
            last = received.wait_for(options, last)
        wait_for(lambda: caplog.text.count("started[31m") == 4, "its lines in the log")
    assert "ended with status -9; restarting in 0.01 s" in caplog.text
    assert "ended with status -9; restarting in 0.04 s" in caplog.text
    assert "hush" not in caplog.text
    assert not _runs(last)


def test_a_missing_program_is_logged_and_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If a companion cannot be started, the engine logs this, retries and continues."""
    monkeypatch.setattr(supervisor, "_FIRST_REST", 0.01)
    monkeypatch.setattr(LOG, "propagate", True)
    config = Config()
    config.put("metrics-port", b"9121")
    made = Supervisor(ROWS[0], config, dict, lambda row, config: ["/nowhere"])
    with caplog.at_level(logging.INFO, LOG.name):
        made.start()
        wait_for(lambda: caplog.text.count("could not be started: No such file") > 1, "two attempts")
        made.request_stop()
        made.wait()


@pytest.mark.parametrize(
    ("settings", "address", "found"),
    [
        ({}, ("127.0.0.1", 7000, 0), {"url": "redis://127.0.0.1:7000"}),
        ({}, ("::", 7000, 0), {"url": "redis://[::1]:7000"}),
        ({"unixsocket": "/run/a b.sock"}, ("0.0.0.0", 7000, 0), {"url": "unix:///run/a%20b.sock"}),
        (
            {"tls-cert-file": "/c", "tls-key-file": "/k", "tls-key-file-pass": "p"},
            ("0.0.0.0", 0, 7001),
            {
                "url": "rediss://127.0.0.1:7001",
                "tls.verify": "none",
                "tls.certFile": "/c",
                "tls.keyFile": "/k",
                "tls.keyPassword": "p",
            },
        ),
    ],
)
def test_connection_options_of_a_companion(
    settings: dict[str, str], address: tuple[str, int, int], found: dict[str, str]
) -> None:
    """A companion uses the Unix socket if there is one, else the port, else the TLS port with the
    engine's certificate.
    """
    config = Config()
    for name, value in settings.items():
        config.put(name, value.encode())
    assert connection_options(config, *address) == found


def _page(port: int) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            page: bytes = answer.read()
            return page
    except (OSError, HTTPException):
        return b""


def _answers(port: int, text: bytes) -> Callable[[], bool]:
    return lambda: text in _page(port)


def test_the_exporter_runs_next_to_an_engine() -> None:
    """The exporter gets the password without exposing it, follows CONFIG SET, and exits when the engine is killed."""
    port, other = servers.free_port(), servers.free_port()
    with servers.engine("--metrics-port", str(port), "--requirepass", "sesame") as engine:
        wait_for(_answers(port, b"\nredis_up 1.0\n"), "the metrics", 60)
        children = Path(f"/proc/{engine.pid}/task/{engine.pid}/children")
        if children.exists():
            tasks = Path(f"/proc/{engine.pid}/task").iterdir()
            (child,) = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
            for name in ("cmdline", "environ"):
                assert b"sesame" not in Path(f"/proc/{child}/{name}").read_bytes()
        assert "metrics: metrics at http://127.0.0.1" in engine.output.read_text()
        with redis.Redis(port=engine.port, password="sesame", protocol=2) as client:
            client.config_set("metrics-port", other)
        wait_for(_answers(other, b"\nredis_up 1.0\n"), "the metrics elsewhere", 60)
        assert _page(port) == b""
        engine.process.kill()
        wait_for(lambda: not _page(other), "the exporter's end")
