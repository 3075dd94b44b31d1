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
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.servers.releases import Release, release_in
from tests.suite import tools
from tests.suite.waiting import DEADLINE, START_DEADLINE, wait_for

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


@functools.cache
def redis_release() -> Release:
    """The release of ``redis-server``, which may be a Valkey; version 0 where there is none."""
    path = tools.path_of("redis-server")
    if path is None:
        return Release((0,))
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    release = release_in(text)
    if release is None:
        raise RuntimeError(f"{path} --version says {text!r}")
    return release


def free_port() -> int:
    """A port of the loopback interface that nobody listens on at the moment."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tied_to_us(command: list[str]) -> list[str]:
    """The command, so that its process ends with this one, even where that is killed (where the system can do it).

    The tie is to the thread that starts the process, so it is only made by the main one.
    """
    setpriv = tools.path_of("setpriv")
    if setpriv is None or threading.current_thread() is not threading.main_thread():
        return command
    return [setpriv, "--pdeathsig", "TERM", *command]


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the process: SIGTERM, and SIGKILL where it has not gone after five seconds."""
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
    path = tools.needed("redis-server")

    def command(directory: Path, port: int) -> list[str]:
        settings = f"--bind 127.0.0.1 --unixsocket {directory}/s --dir {directory} --enable-debug-command yes"
        return [path, "--port", str(port), *settings.split(), "--appendonly", "no", "--save", "", *flags]

    with _on_a_free_port(command, "Ready to accept connections") as running:
        yield running


@contextmanager
def sentinel(*settings: str, port_setting: str = "port") -> Iterator[Running]:
    """A real Sentinel on a free port: a ``redis-server`` in that mode, with ``settings`` as lines of its configuration.

    ``port_setting`` is ``"tls-port"`` for one that speaks TLS; ``settings`` then contain ``"port 0"``.
    """
    path = tools.needed("redis-server")

    def command(directory: Path, port: int) -> list[str]:
        configuration = directory / "sentinel.conf"  # which the Sentinel rewrites
        lines = (f"{port_setting} {port}", "bind 127.0.0.1", f"dir {directory}", *settings)
        configuration.write_text("".join(f"{line}\n" for line in lines))
        return [path, str(configuration), "--sentinel"]

    with _on_a_free_port(command, "Sentinel ID is") as running:
        yield running


@contextmanager
def _on_a_free_port(command: Callable[[Path, int], list[str]], ready: str) -> Iterator[Running]:
    """A process of redis-server; its output contains ``ready`` when it answers."""
    # The path of a Unix socket has room for about a hundred characters, so the directory's name is short.
    directory = Path(tempfile.mkdtemp(prefix="ps-redis-"))
    output = directory / "output.txt"
    try:
        # Between finding a free port and listening on it somebody else may take it: then try another.
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
                state = wait_for(lambda: _state(process, output, ready), "redis-server to start", START_DEADLINE)  # noqa: B023
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
    environment: dict[str, str] | None = None,
    module: str = "engine",
) -> Iterator[Running]:
    """The engine as ``python -m engine`` on a port of its own choice, in a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="ps-engine-"))
    output = directory / "errors.txt"
    words = [*([config_file] if config_file else []), "--port", "0", "--dir", str(directory), "--save", "", *flags]
    command = tied_to_us([sys.executable, "-m", module, *words])
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(environment or {})}
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=directory, env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sink
        )
    try:
        host, port = ready_line(process, output)
        yield Running(process, host, port, None, directory, output)
    finally:
        stop(process)
        shutil.rmtree(directory, ignore_errors=True)


def run_engine(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The engine with arguments that make it end by itself."""
    command = [sys.executable, "-m", "engine", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=ROOT, check=False)


def ready_line(process: subprocess.Popen[bytes], output: Path) -> tuple[str, int]:
    """Wait for the line in which the engine says that it is ready; its host and port. ``output`` holds its errors."""
    assert process.stdout is not None
    seen = b""
    while True:
        readable, _, _ = select.select([process.stdout], [], [], START_DEADLINE)
        piece = os.read(process.stdout.fileno(), 4096) if readable else b""
        if not piece:
            raise RuntimeError(f"the engine did not get ready; it said {seen!r} and\n{output.read_text()}")
        seen += piece
        found = _READY.search(seen.decode(errors="replace"))
        if found is not None and seen.endswith(b"\n"):
            return found[1], int(found[2])
