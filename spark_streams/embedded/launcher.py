"""Finds the embedded engine of this process's driver, and starts it if it does not run.

There is one engine for each driver (`drivers` says which process that is), and one more for each data directory that
the option `embedded.dir` names. Whichever process needs it first starts it: a lock in the driver's directory lets one
in at a time. The engine runs under a supervisor, a process that outlives the one that started it and records in the
same directory how far the engine is (`record`; its states are those of `life`). All others only read the record.

Both are started by their path (`streamwire.bootstrap`), not by name: the engine is the one that was installed with this
connector, whatever else is called `engine` in the working directory or on PYTHONPATH.
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

from spark_streams.embedded import discards, drivers, life, processes, record
from spark_streams.embedded.life import State
from spark_streams.embedded.processes import Process
from spark_streams.embedded.record import Record
from spark_streams.errors import fail
from streamclient.config.address import Address, Embedded
from streamwire import bootstrap

if TYPE_CHECKING:
    import redis

#: A command line that starts the engine in place of the usual one, to give it settings of its own.
COMMAND = "PYSTREAMS_EMBEDDED_COMMAND"

#: The directory that the option `embedded.dir` is relative to.
HOME = "PYSTREAMS_HOME"

_log = logging.getLogger("spark_streams")
_DIRECTORY = "--dir"
#: It listens on a Unix socket alone. Without `embedded.dir` the data live in memory alone. Mostly Spark reads it, by
#: columns.
_SETTINGS = ("--port", "0", "--save", "")
#: The directory, or the zip archive, that `spark_streams` was imported from; it contains `engine` too.
_SUPERVISOR = "spark_streams.embedded.supervisor"
#: For how long a supervisor may live that has removed its record; one that goes on has lost its directory.
_ENDING_SECONDS = 5.0
#: The supervisor gives up before that, so this is for one that hangs, and for an engine that is about to end first.
_PATIENCE_SECONDS = 10.0 + sum(seconds for seconds, _ in life.LIMITS.values())


def url(data: str | None = None) -> str:
    """Return the embedded engine's URL, for programs beside Spark; the engine is started if it does not run yet.

    `data` is the option `embedded.dir`: the engine that keeps its data there is another one than that in memory.
    """
    return address(data).url


def connect(data: str | None = None, **settings: Any) -> redis.Redis:
    """Return a redis-py client of the embedded engine; `settings` are those of `redis.Redis.from_url`."""
    import redis  # noqa: PLC0415 - only programs next to Spark need it

    client: redis.Redis = redis.Redis.from_url(url(data), **settings)
    return client


def home() -> Path:
    """What relative data directories are relative to: PYSTREAMS_HOME, else the user's state directory."""
    given = os.environ.get(HOME)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "pystreams"


def started(server: Address | Embedded) -> Address:
    """Return the server's address; the embedded engine is started if that is meant and it does not run yet."""
    return server if isinstance(server, Address) else address(server.directory)


def address(data: str | None = None) -> Address:
    """Return the address of this driver's embedded engine; the engine is started if it does not run yet.

    Raises EmbeddedError if it does not start, with the place of its output.
    """
    process, directory = drivers.find(kept=data is not None)
    settings: list[str] = []
    life_of_data = f"in memory, until its driver ends (process {process.pid})"
    if data is not None:
        place = (home() / data).expanduser().absolute()
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            fail("EMBEDDED_NO_DATA", directory=place, reason=problem.strerror)
        settings = [_DIRECTORY, str(place), "--appendonly", "yes"]
        life_of_data = f"in {place}, also after its driver's end"
        directory = drivers.data_directory(directory, place)
    try:
        if data is not None:
            directory.mkdir(mode=0o700, exist_ok=True)
        with _locked(directory / "lock") as lock:
            found, is_new = _ready(directory, process, lock, settings)
    except FileNotFoundError:
        fail("EMBEDDED_NO_DIRECTORY", reason=f"{directory} has been removed while the application runs")
    except OSError as problem:
        fail("EMBEDDED_NO_DIRECTORY", reason=problem)
    if is_new and discards.notices():
        # A directory was asked for; memory is what a query gets that says nothing.
        level = logging.INFO if settings else logging.WARNING
        advice = "" if settings else " To keep them, set the option 'url' (or PYSTREAMS_URL) or 'embedded.dir'."
        _log.log(level, "No server is named: the embedded engine keeps all streams %s.%s", life_of_data, advice)
    return Address(found.url, f"{socket.gethostname()}/{process}")


@dataclass(frozen=True)
class Running:
    """A running embedded engine of this user: its URL, its driver, and its data directory (None: it has none)."""

    url: str
    driver: Process
    data: str | None

    def __str__(self) -> str:
        kept = "in memory" if self.data is None else f"in {self.data}"
        return f"{self.url} ({kept}, of process {self.driver.pid}: {processes.shown(self.driver.pid)})"


def running() -> list[Running]:
    """Return this user's embedded engines that accept clients, of all drivers on this machine; start none."""
    found = []
    for driver, directory in drivers.directories():
        known = record.read(directory)
        if known is not None and known.usable() and known.engine is not None:
            found.append(Running(known.url, driver, processes.value_of(known.engine.pid, _DIRECTORY)))
    return found


def check_reach(server: Address) -> None:
    """Refuse another driver's embedded engine: on another machine its address would mean something else."""
    if not server.driver:
        return
    host, _, name = server.driver.partition("/")
    process = Process.parse(name)
    if host != socket.gethostname() or process is None or not drivers.is_ours(process):
        here = f"host {socket.gethostname()}, process {os.getpid()}"
        fail("EMBEDDED_OUT_OF_REACH", driver=server.driver, here=here)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _ready(directory: Path, process: Process, lock: int, settings: list[str]) -> tuple[Record, bool]:
    """Return the record of an engine that is ready, and whether it was started here; else it ran before."""
    log = directory / "log"
    supervisor: subprocess.Popen[bytes] | None = None
    begin = time.monotonic()
    while (waited := time.monotonic() - begin) < _PATIENCE_SECONDS:
        ended = supervisor is not None and supervisor.poll() is not None
        found = record.read(directory)
        if found is not None and found.usable():
            if supervisor is not None:
                # It outlives this process or is reaped by its end; there is nothing to wait for.
                supervisor.returncode = 0
            return found, supervisor is not None
        if ended:
            _fail(found, log)
        if supervisor is None and found is None and processes.is_running(_supervisor_of(directory, process)):
            if waited > _ENDING_SECONDS:
                reason = f"the files in {directory} have been removed while its engine runs"
                fail("EMBEDDED_NO_DIRECTORY", reason=reason)
        elif supervisor is None and (found is None or not found.supervisor.runs()):
            record.remove(directory)
            supervisor = _start(directory, process, lock, settings, log)
        time.sleep(0.01)
    if supervisor is not None:
        supervisor.kill()
        supervisor.wait()
    return fail("EMBEDDED_NOT_STARTED", reason=f"nothing was heard of it for {_PATIENCE_SECONDS:g} seconds", log=log)


def _fail(found: Record | None, log: Path) -> None:
    if found is not None and found.missing:
        fail("EMBEDDED_NOT_INSTALLED", package=found.missing, python=sys.executable)
    reason = found.reason if found is not None and found.state is State.FAILED else "it ended at once"
    last = log.read_text(errors="replace").rstrip().rpartition("\n")[2]
    if not last:
        _check_room(log.parent)
    fail("EMBEDDED_NOT_STARTED", reason=f"{reason}: {last}" if last else reason, log=log)


def _check_room(directory: Path) -> None:
    """Raise the OSError of a full disk: the engine could not even say that it was one."""
    probe = directory / "probe"
    try:
        probe.write_bytes(bytes(1 << 14))
    finally:
        probe.unlink(missing_ok=True)


def _supervisor_of(directory: Path, process: Process) -> list[str]:
    """Return the words by which a supervisor's command line names its directory and driver."""
    return [_SUPERVISOR, str(directory), str(process)]


def _start(directory: Path, process: Process, lock: int, settings: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start the supervisor, which starts the engine and records how far it is; it gets the lock as well."""
    usual = [*bootstrap.program("engine.__main__"), *_SETTINGS]
    path = directory / drivers.SOCKET
    path.unlink(missing_ok=True)  # an engine that was killed has left it
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
            start_new_session=True,  # neither Ctrl-C nor the end of a worker's process group is meant for it
        )
