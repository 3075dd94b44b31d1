"""Servers as processes, for tests: the engine, and a real redis-server.

Each context manager yields the process when it is ready. At the end of the block, it stops the process (kills it, if
necessary) and removes the directory of the process. Tests wait for a condition with a deadline instead of sleeping.

`Clock` moves the engine's clock: it writes an offset, which the engine adds to the system's time, to a file. Idle
times, claims, expiry and retention depend on it, so a test can move the clock instead of sleeping.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from streamwire import bootstrap

#: Environment variable that names the file for the engine (`engine.shell.clock`).
VARIABLE = "PYSTREAMS_ENGINE_CLOCK"

_BYTES = 8


class Clock:
    """The clock of one engine. It only moves forward, like the IDs of entries."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._offset_us = 0
        self._write()

    @property
    def offset(self) -> float:
        """Seconds that the server is ahead of this machine."""
        return self._offset_us / 1e6

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward."""
        if seconds < 0:
            raise ValueError(f"a server's clock cannot go back ({seconds:g} seconds)")
        self._offset_us += round(seconds * 1e6)
        self._write()

    def _write(self) -> None:
        # Write in place, because the engine has mapped the file.
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(self._offset_us.to_bytes(_BYTES, "little", signed=True))


T = TypeVar("T")

#: Default deadline in seconds. It is generous, since only failures take that long.
DEADLINE = 60.0
#: Deadline for the start of a process in seconds, for busy machines. Callers stop waiting if the process exits early.
START_DEADLINE = 120.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05


def wait_until(condition: Callable[[], T], what: str = "the condition", deadline: float = DEADLINE) -> T:
    """Return the first true value of ``condition``. Raises TimeoutError with ``what`` after ``deadline`` seconds."""
    end = time.monotonic() + deadline
    pause = _FIRST_PAUSE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline:g} s for {what}; last seen: {value!r}")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


_READY = re.compile(r"ready on (\S+):(\d+) pid (\d+)")


@dataclass(frozen=True)
class Running:
    """A running server. ``unixsocket`` and ``clock`` are None if the server has none."""

    process: subprocess.Popen[bytes]
    host: str
    port: int
    unixsocket: Path | None
    directory: Path
    output: Path
    clock: Clock | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    def connect(self, timeout: float = DEADLINE) -> socket.socket:
        """Return a new connection."""
        connection = socket.create_connection((self.host, self.port), timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def free_port() -> int:
    """Return a port of the loopback interface that is free at the moment."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tied_to_us(command: list[str]) -> list[str]:
    """Return the command, extended so that its process ends when the current process ends or is killed.

    This requires `setpriv`. The new process is tied to the thread that starts it, so only the main thread's commands
    are extended.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None or threading.current_thread() is not threading.main_thread():
        return command
    return [setpriv, "--pdeathsig", "TERM", *command]


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the process: SIGTERM, and SIGKILL if it is still running after five seconds."""
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
def redis(*flags: str, program: str = "redis-server") -> Iterator[Running]:
    """Run a real ``redis-server`` on a free port, without persistence unless ``flags`` enable it.

    ``flags`` are added unchanged to its command line (``"--appendonly", "yes"``).
    """

    def command(directory: Path, port: int) -> list[str]:
        settings = f"--bind 127.0.0.1 --unixsocket {directory}/s --dir {directory}"
        return [program, "--port", str(port), *settings.split(), "--appendonly", "no", "--save", "", *flags]

    with on_a_free_port(command, "Ready to accept connections") as running:
        yield running


@contextmanager
def on_a_free_port(command: Callable[[Path, int], list[str]], ready: str) -> Iterator[Running]:
    """Run redis-server and wait until its output contains ``ready``."""
    # The path of a Unix socket has room for about a hundred characters, so the directory's name is short.
    directory = Path(tempfile.mkdtemp(prefix="ps-redis-"))
    output = directory / "output.txt"
    try:
        # If another process takes the port before the server listens on it, try another port.
        for _ in range(5):
            port = free_port()
            with output.open("wb") as sink:
                process = subprocess.Popen(
                    tied_to_us(command(directory, port)),
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                )
            try:
                state = wait_until(lambda: _state(process, output, ready), "redis-server to start", START_DEADLINE)  # noqa: B023
                if state == "ready":
                    unixsocket = directory / "s"
                    socket_or_none = unixsocket if unixsocket.exists() else None
                    yield Running(process, "127.0.0.1", port, socket_or_none, directory, output)
                    return
            finally:
                stop(process)
            if "Address already in use" not in output.read_text():
                break
        raise RuntimeError(f"redis-server did not start:\n{output.read_text()}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _state(process: subprocess.Popen[bytes], output: Path, ready: str) -> str:
    if ready in output.read_text():
        return "ready"
    return "gone" if process.poll() is not None else ""


@contextmanager
def engine(
    *flags: str,
    config_file: str | None = None,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] | None = None,
    movable: bool = False,
) -> Iterator[Running]:
    """Run the engine on a free port, in a temporary directory, with ``flags`` as further directives.

    ``program``: the command line that runs the engine; None for this installation. ``movable``: whether a test can
    move the engine's time, by ``clock``.
    """
    directory = Path(tempfile.mkdtemp(prefix="ps-engine-"))
    output = directory / "errors.txt"
    clock = Clock(directory / "clock") if movable else None
    words = [*([config_file] if config_file else []), "--port", "0", "--dir", str(directory), "--save", "", *flags]
    command = tied_to_us([*(program or bootstrap.program("engine.__main__")), *words])
    surroundings = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
    if clock is not None:
        surroundings[VARIABLE] = str(clock.file)
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=directory, env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sink
        )
    try:
        host, port = ready_line(process, output)
        yield Running(process, host, port, None, directory, output, clock)
    finally:
        stop(process)
        shutil.rmtree(directory, ignore_errors=True)


def ready_line(process: subprocess.Popen[bytes], output: Path) -> tuple[str, int]:
    """Wait for the engine's ready line; return host and port. ``output`` contains its errors."""
    assert process.stdout is not None
    seen = b""
    while True:
        readable, _, _ = select.select([process.stdout], [], [], START_DEADLINE)
        piece = os.read(process.stdout.fileno(), 4096) if readable else b""
        if not piece:
            raise RuntimeError(f"the engine did not become ready; its output is {seen!r} and\n{output.read_text()}")
        seen += piece
        found = _READY.search(seen.decode(errors="replace"))
        if found is not None and seen.endswith(b"\n"):
            return found[1], int(found[2])
