"""Servers to measure: separate processes on free ports with temporary directories, stopped after the measurement.

A server is ready when it replies to PING. Engine and redis-server run without persistence.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    port: int
    pid: int


def redis_command() -> list[str] | None:
    """Return redis-server's command line without port and directory, or None if it is not installed.

    The environment variable ``REDIS_SERVER`` selects another program than redis-server on PATH.
    """
    program = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    return None if program is None else [program, "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]


def engine_command() -> list[str]:
    """Return the engine's command line without port and directory."""
    return [sys.executable, "-m", "engine", "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]


def in_turn() -> Iterator[Server]:
    """Run the engine, then redis-server, each for one iteration of the caller's loop. Raises SystemExit if redis-server
    is not installed.
    """
    redis = redis_command()
    if redis is None:
        raise SystemExit("no redis-server found")
    for name, command in (("engine", engine_command()), ("redis", redis)):
        with running(name, command) as server:
            yield server


def end_with_this_process() -> None:
    """Make SIGTERM raise SystemExit in this process, so that its servers are stopped too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))


@contextmanager
def running(name: str, command: list[str], directory: str | None = None) -> Iterator[Server]:
    """Run a server while the block runs, in a temporary directory, or in ``directory``, which is kept."""
    with ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"bench-{name}-"))
        port = free_port()
        output = Path(directory) / "output.txt"
        with (
            output.open("wb") as sink,
            subprocess.Popen(
                [*command, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                if not gets_ready(process, port):
                    raise RuntimeError(f"{name} did not get ready:\n{output.read_text()}")
                yield Server(name, port, process.pid)
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()


def free_port() -> int:
    """Return a port that is currently free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def gets_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    """Return whether the server replies to PING before it ends and before the deadline."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"*1\r\n$4\r\nPING\r\n")
                if connection.recv(7) == b"+PONG\r\n":
                    return True
        except OSError:
            pass
        time.sleep(0.02)
    return False


def accepts(process: subprocess.Popen[bytes], port: int) -> bool:
    """Return whether the server accepts connections before it ends and before the deadline."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.1)
    return False
