"""Servers to measure: starts each as a process of its own on a free port with a temporary directory, and ends it.

Owns the command lines. A server is ready when it answers PING; both run without persistence.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

START_SECONDS = 15


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    port: int
    pid: int


def redis_command() -> list[str] | None:
    """Return the start of redis-server's command line, or None where it is not installed."""
    program = shutil.which("redis-server")
    return None if program is None else [program, "--save", "", "--appendonly", "no"]


def engine_command() -> list[str]:
    """Return the start of the bundled engine's command line."""
    return [sys.executable, "-m", "engine"]


@contextmanager
def running(name: str, command: list[str]) -> Iterator[Server]:
    """Run a server while the block runs."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as directory:
        port = free_port()
        with subprocess.Popen(
            [*command, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory],
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        ) as process:
            try:
                wait_until_ready(process, port, name)
                yield Server(name, port, process.pid)
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(process: subprocess.Popen[bytes], port: int, name: str) -> None:
    """Return when the server answers PING; raise where it ends or does not answer in time."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with exit code {process.returncode} before it was ready")
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(7) == b"+PONG\r\n":
                    return
        except OSError:
            pass
        time.sleep(0.02)
    raise RuntimeError(f"{name} did not answer PING on port {port} within {START_SECONDS} s")
