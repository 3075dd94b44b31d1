"""Servers as processes, for tests: a real ``redis-server``, and the engine.

Each is a context manager that gives the process once it answers, and leaves nothing behind: the process is stopped
(killed, where it does not go by itself), its directory removed, whatever the test did.
"""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import DEADLINE, wait_for

ROOT = Path(__file__).resolve().parent.parent
_READY = re.compile(r"ready on (\S+):(\d+) pid (\d+)")


@dataclass(frozen=True)
class Running:
    """A server that answers. ``unixsocket`` is None where it has none."""

    process: subprocess.Popen[bytes]
    host: str
    port: int
    unixsocket: Path | None
    directory: Path
    output: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    def connect(self, timeout: float = DEADLINE) -> socket.socket:
        """A new connection."""
        connection = socket.create_connection((self.host, self.port), timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def redis_server() -> str | None:
    """The path of ``redis-server``, or None. ``REDIS_SERVER`` in the environment names another one."""
    return os.environ.get("REDIS_SERVER") or shutil.which("redis-server")


def redis_required() -> bool:
    """Whether a missing ``redis-server`` is a failure rather than a reason to skip."""
    return os.environ.get("REQUIRE_REDIS", "") not in ("", "0")


def needed(program: str) -> str:
    """The path of a program that a test needs; without it the test is skipped, or fails (``REQUIRE_REDIS=1``)."""
    path = redis_server() if program == "redis-server" else shutil.which(program)
    if path is None:
        give_up = pytest.fail if redis_required() else pytest.skip
        give_up(f"no {program} found on PATH (REQUIRE_REDIS=1 makes that a failure)")
    return path


@functools.cache
def redis_version() -> tuple[int, ...]:
    """The version of ``redis-server``; (0,) where there is none."""
    path = redis_server()
    if path is None:
        return (0,)
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\d+(?:\.\d+)*)", text)
    if found is None:
        raise RuntimeError(f"{path} --version says {text!r}")
    return tuple(int(part) for part in found[1].split("."))


def free_port() -> int:
    """A port of the loopback interface that nobody listens on at the moment."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tied_to_us(command: list[str]) -> list[str]:
    """The command, so that its process ends with this one, even where that is killed (where the system can do it).

    The tie is to the thread that starts the process, so it is only made by the main one.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None or threading.current_thread() is not threading.main_thread():
        return command
    return [setpriv, "--pdeathsig", "TERM", *command]


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(DEADLINE)
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def redis(*flags: str) -> Iterator[Running]:
    """A real ``redis-server`` on a free port, without persistence unless ``flags`` say otherwise.

    ``flags`` are added to its command line as they are (``"--appendonly", "yes"``).
    """
    path = needed("redis-server")
    # The path of a Unix socket has room for about a hundred characters, so the directory's name is short.
    directory = Path(tempfile.mkdtemp(prefix="ps-redis-"))
    try:
        with _redis_process(path, directory, flags) as running:
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _redis_process(path: str, directory: Path, flags: tuple[str, ...]) -> Iterator[Running]:
    unixsocket = directory / "s"
    output = directory / "output.txt"
    settings = (
        f"--bind 127.0.0.1 --unixsocket {unixsocket} --dir {directory} --appendonly no --enable-debug-command yes"
    )
    # Between finding a free port and listening on it somebody else may take it: then try another.
    for _ in range(5):
        port = free_port()
        with output.open("wb") as sink:
            process = subprocess.Popen(
                _tied_to_us([path, "--port", str(port), *settings.split(), "--save", "", *flags]),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            if _gets_ready(process, output):
                yield Running(process, "127.0.0.1", port, unixsocket, directory, output)
                return
        finally:
            _stop(process)
        if "Address already in use" not in output.read_text():
            break
    raise RuntimeError(f"redis-server did not start:\n{output.read_text()}")


def _gets_ready(process: subprocess.Popen[bytes], output: Path) -> bool:
    return wait_for(lambda: _redis_state(process, output), "redis-server to start") == "ready"


def _redis_state(process: subprocess.Popen[bytes], output: Path) -> str:
    if "Ready to accept connections" in output.read_text():
        return "ready"
    return "gone" if process.poll() is not None else ""


@contextmanager
def engine(*flags: str, config_file: str | None = None, environment: dict[str, str] | None = None) -> Iterator[Running]:
    """The engine as ``python -m engine`` on a port of its own choice, in a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="ps-engine-"))
    output = directory / "errors.txt"
    words = [*([config_file] if config_file else []), "--port", "0", "--dir", str(directory), "--save", "", *flags]
    command = _tied_to_us([sys.executable, "-m", "engine", *words])
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(environment or {})}
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=directory, env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sink
        )
    try:
        host, port = _ready_line(process, output)
        yield Running(process, host, port, None, directory, output)
    finally:
        _stop(process)
        shutil.rmtree(directory, ignore_errors=True)


def _ready_line(process: subprocess.Popen[bytes], output: Path) -> tuple[str, int]:
    assert process.stdout is not None
    seen = b""
    while True:
        readable, _, _ = select.select([process.stdout], [], [], DEADLINE)
        piece = os.read(process.stdout.fileno(), 4096) if readable else b""
        if not piece:
            raise RuntimeError(f"the engine did not get ready; it said {seen!r} and\n{output.read_text()}")
        seen += piece
        found = _READY.search(seen.decode(errors="replace"))
        if found is not None and seen.endswith(b"\n"):
            return found[1], int(found[2])
