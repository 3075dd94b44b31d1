"""Finds the embedded engine of this process's driver, and starts it if it is not running.

Each driver (see `drivers`) has one engine in memory, and one engine for each data directory that the option
`embedded.dir` names. The first process that needs an engine starts it, under a lock in the engine's directory. The
engine runs under a supervisor, a process that outlives its starter and records both processes in the same directory.
An engine is ready when it replies to PING on its socket there.

Supervisor and engine are started by path (`streamwire.bootstrap`), not by name. So the engine installed with this
connector runs, even if the working directory or PYTHONPATH has another module named `engine`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from spark_streams.embedded import drivers, supervisor
from spark_streams.embedded.drivers import Process
from spark_streams.errors import fail
from streamclient.config.address import Address, Embedded
from streamwire import bootstrap

if TYPE_CHECKING:
    import redis

#: Environment variable with a command line that replaces the engine's default command line, for custom settings.
COMMAND = "PYSTREAMS_EMBEDDED_COMMAND"

#: Environment variable with the directory to which the option `embedded.dir` is relative.
HOME = "PYSTREAMS_HOME"

#: Environment variable; `off` disables the warnings about where the data is kept and when it is lost.
NOTICES = "PYSTREAMS_EMBEDDED_NOTICES"

_log = logging.getLogger("spark_streams")
_DIRECTORY = "--dir"
#: Directives in the default command line: no snapshots, and no TCP port, because the engine listens on a Unix socket.
_SETTINGS = ("--port", "0", "--save", "")
#: Module that runs as the supervisor.
_SUPERVISOR = "spark_streams.embedded.supervisor"
#: Seconds that a supervisor may run without a record, because it removes the record before it stops the engine. If it
#: runs longer, its directory was removed.
_ENDING_SECONDS = 10.0
_START_SECONDS = 30.0  # time limit for a start
_REPLY_SECONDS = 5.0  # time limit for a reply to PING
_MISSING = "missing package "  # line of `streamwire.bootstrap`


def url(data: str | None = None) -> str:
    """Return the embedded engine's URL, for programs other than Spark. Starts the engine if it is not running.

    `data`: value of the option `embedded.dir`, for the engine that stores its data there; None for the engine in
    memory.
    """
    return address(data).url


def connect(data: str | None = None, **settings: Any) -> redis.Redis:
    """Return a redis-py client of the embedded engine; `settings` are those of `redis.Redis.from_url`."""
    import redis  # noqa: PLC0415 - only programs next to Spark need it

    client: redis.Redis = redis.Redis.from_url(url(data), **settings)
    return client


def home() -> Path:
    """Return the directory to which data directories are relative: PYSTREAMS_HOME, else the user's state directory."""
    given = os.environ.get(HOME)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "pystreams"


def started(server: Address | Embedded) -> Address:
    """Return the server's address. Starts the embedded engine if it is the server and is not running."""
    return server if isinstance(server, Address) else address(server.directory)


def address(
    data: str | None = None, *, start_seconds: float = _START_SECONDS, ending_seconds: float = _ENDING_SECONDS
) -> Address:
    """Return the address of this driver's embedded engine. Starts the engine if it is not running.

    `start_seconds`: time limit for a start. `ending_seconds`: time limit for the end of an earlier engine. Raises
    EmbeddedError if the engine cannot be started, and the errors of `drivers.find`.
    """
    process, directory = drivers.find(persistent=data is not None)
    settings: list[str] = []
    life_of_data = f"in memory, until its driver ends (process {process.pid})"
    if data is not None:
        data_directory = (home() / data).expanduser().absolute()
        try:
            data_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            fail("EMBEDDED_NO_DATA", directory=data_directory, reason=problem.strerror)
        settings = [_DIRECTORY, str(data_directory), "--appendonly", "yes"]
        life_of_data = f"in {data_directory}, where they remain after its driver ends"
        directory = drivers.data_directory(directory, data_directory)
    try:
        if data is not None:
            directory.mkdir(mode=0o700, exist_ok=True)
        with _locked(directory / "lock") as lock:
            is_new = _ready(directory, process, lock, settings, start_seconds, ending_seconds)
    except FileNotFoundError:
        fail("EMBEDDED_NO_DIRECTORY", reason=f"{directory} has been removed while the application runs")
    except OSError as problem:
        fail("EMBEDDED_NO_DIRECTORY", reason=problem)
    if is_new and _notices():
        # Warn only about an engine in memory: it is the default, and its data is lost when it ends.
        level = logging.INFO if settings else logging.WARNING
        advice = (
            ""
            if settings
            else " To keep them, set the option 'url' or 'embedded.dir', or the environment variable PYSTREAMS_URL "
            "(without spark_streams.register(spark): before Spark starts)."
        )
        _log.log(level, "No server is named: the embedded engine keeps all streams %s.%s", life_of_data, advice)
    return Address(_url(directory), f"{socket.gethostname()}/{process}")


def _notices() -> bool:
    return os.environ.get(NOTICES, "").lower() not in ("off", "false", "0")


def _url(directory: Path) -> str:
    return f"unix://{quote(str(directory / drivers.SOCKET))}"


@dataclass(frozen=True)
class Running:
    """A running embedded engine of this user. `data`: the data directory; None if the data is in memory."""

    url: str
    driver: Process
    data: str | None

    def __str__(self) -> str:
        storage = "in memory" if self.data is None else f"in {self.data}"
        return f"{self.url} ({storage}, of process {self.driver.pid}: {drivers.shown(self.driver.pid)})"


def running() -> list[Running]:
    """Return this user's running embedded engines, of all drivers on this machine. No engine is started."""
    found = []
    for driver, directory in drivers.directories():
        known = supervisor.record_in(directory)
        if known is not None and known.engine.runs():
            found.append(Running(_url(directory), driver, drivers.value_of(known.engine.pid, _DIRECTORY)))
    return found


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _ready(
    directory: Path, process: Process, lock: int, settings: list[str], start_seconds: float, ending_seconds: float
) -> bool:
    """Wait until the engine is ready, and start it if necessary. Return whether this call has started it."""
    log = directory / "log"
    child: subprocess.Popen[bytes] | None = None
    begin = time.monotonic()
    while (waited := time.monotonic() - begin) < start_seconds:
        ended = child is not None and child.poll() is not None
        found = supervisor.record_in(directory)
        if found is not None and found.engine.runs():
            if _answers(directory / drivers.SOCKET):
                if child is not None:
                    # Nothing waits for the supervisor: suppress the warning about a child that is still running.
                    child.returncode = 0
                return child is not None
        elif child is not None and ended:
            supervisor.remove_record(directory)
            _fail(child.returncode, log)
        elif child is None and found is None and drivers.is_running(_supervisor_of(directory, process)):
            if waited > ending_seconds:
                reason = f"the files in {directory} have been removed while its engine runs"
                fail("EMBEDDED_NO_DIRECTORY", reason=reason)
        elif child is None and (found is None or not found.supervisor.runs()):
            if found is not None and not settings and _notices():
                _log.warning("The embedded engine ended before its driver. Its entries are lost (output: %s).", log)
            supervisor.remove_record(directory)
            child = _start(directory, process, lock, settings, log)
        time.sleep(0.01)
    if child is not None:
        child.terminate()
        child.wait()
    return fail("EMBEDDED_NOT_STARTED", reason=f"it was not ready after {start_seconds:g} seconds", log=log)


def _answers(path: Path) -> bool:
    """Return whether a server accepts commands on this socket. A server that loads its data may reply LOADING."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_REPLY_SECONDS)
        try:
            link.connect(str(path))
            link.sendall(b"*1\r\n$4\r\nPING\r\n")
            reply = link.recv(1 << 10)
        except OSError:
            return False
    return bool(reply) and not reply.startswith(b"-LOADING")


def _fail(status: int, log: Path) -> None:
    last = log.read_text(errors="replace").rstrip().rpartition("\n")[2]
    if last.startswith(_MISSING):
        fail("EMBEDDED_NOT_INSTALLED", package=last.removeprefix(_MISSING), python=sys.executable)
    reason = f"it ended with status {status}"
    fail("EMBEDDED_NOT_STARTED", reason=f"{reason}: {last}" if last else reason, log=log)


def _supervisor_of(directory: Path, process: Process) -> list[str]:
    """Return the arguments of a supervisor's command line that name its module, directory and driver."""
    return [_SUPERVISOR, str(directory), str(process)]


def _start(directory: Path, process: Process, lock: int, settings: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start the supervisor, which starts the engine and inherits the lock."""
    usual = [*bootstrap.program("engine.__main__"), *_SETTINGS]
    path = directory / drivers.SOCKET
    path.unlink(missing_ok=True)  # left by a killed engine
    listening = ["--unixsocket", str(path), "--unixsocketperm", "700"]
    command = [*(shlex.split(os.environ.get(COMMAND, "")) or usual), *listening, *settings]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*bootstrap.program(_SUPERVISOR)[:-1], *_supervisor_of(directory, process), str(lock), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            pass_fds=[lock],
            start_new_session=True,  # unaffected by Ctrl-C and by the end of a worker's process group
        )
