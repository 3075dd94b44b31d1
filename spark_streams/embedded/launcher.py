"""The embedded engine: one per driver, found by all processes of the driver, gone when the driver is gone.

Spark plans Python sources in short-lived processes that it starts itself, not in the user's Python. Whichever process
needs the engine first starts it; all others must find the same one. So the engine belongs to a *driver*, which every
process can name by itself:

* a process that Spark started, or that `spark-submit` runs, has the JVM among its ancestors: the JVM is the driver;
* a user's own Python program with a running SparkContext knows its JVM's process number: the same one;
* one that has no JVM yet is the driver itself. The JVM it starts later inherits its environment, and in it the variable
  PYSTREAMS_EMBEDDED, which says where the engine is to be found.

A driver is a process number with that process's start time, since numbers are used again. Its directory (in the
temporary directory, for this user alone) holds a lock, which the first one takes, and the address. The engine runs
under a supervisor (`spark_streams.embedded.supervisor`), which watches the driver and lets the engine end with it,
however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import redis

from spark_streams.config.address import Address
from spark_streams.embedded import processes
from spark_streams.errors import fail

VARIABLE = "PYSTREAMS_EMBEDDED"
COMMAND = "PYSTREAMS_EMBEDDED_COMMAND"
"""A command line that starts the engine in place of `python -m engine --port 0`, to give it settings of its own."""

HOME = "PYSTREAMS_HOME"
"""The directory that the option `embedded.dir` is relative to."""

_SPARKS = ("PYTHON_WORKER_FACTORY_", "PYSPARK_GATEWAY_PORT")
"""How variables begin that Spark sets for its Python workers, and for the program that `spark-submit` runs."""

_START_SECONDS = 30.0
#: Without `embedded.dir` the data live in memory alone.
_SETTINGS = ("--port", "0", "--save", "")
#: The directory, or the zip archive, that `spark_streams` was imported from; `engine` lies beside it.
_ROOT = Path(__file__).absolute().parents[2]


def url(data: str | None = None) -> str:
    """The embedded engine's URL, for programs beside Spark; it is started if it does not run yet.

    `data` is the option `embedded.dir`: the engine that keeps its data there is another one than that in memory.
    """
    return address(data).url


def connect(data: str | None = None, **settings: Any) -> redis.Redis:
    """A redis-py client of the embedded engine; `settings` are those of `redis.Redis.from_url`."""
    client: redis.Redis = redis.Redis.from_url(url(data), **settings)
    return client


def home() -> Path:
    """What relative data directories are relative to: PYSTREAMS_HOME, else the user's state directory."""
    given = os.environ.get(HOME)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "pystreams"


def address(data: str | None = None) -> Address:
    """The address of this driver's embedded engine; it is started if it does not run yet."""
    inherited = os.environ.get(VARIABLE)
    if inherited is not None:
        directory = Path(inherited)
        driver = processes.Process.parse(directory.name)
        if driver is not None and driver.runs():
            return _of(directory, driver, data)
    driver = _driver()
    _check_master(driver)
    directory = _directory(driver)
    if driver.pid == os.getpid():
        os.environ[VARIABLE] = str(directory)
    return _of(directory, driver, data)


def check_reach(server: Address) -> None:
    """Refuse another driver's embedded engine: on another machine its address would mean something else."""
    if not server.driver:
        return
    host, _, driver = server.driver.partition("/")
    process = processes.Process.parse(driver)
    here = f"host {socket.gethostname()}, process {os.getpid()}"
    if host != socket.gethostname() or process is None or not _belongs_to(process):
        fail("EMBEDDED_OUT_OF_REACH", driver=server.driver, here=here)


def _belongs_to(driver: processes.Process) -> bool:
    if os.environ.get(VARIABLE, "").endswith(f"/{driver}"):
        return True
    return driver in (processes.Process.of(os.getpid()), *processes.ancestors())


def _driver() -> processes.Process:
    """The process whose life the engine shares."""
    # The JVM outlives its SparkContext, and serves the next one too.
    jvm = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_jvm", None)
    if jvm is not None:
        return processes.Process.of(int(jvm.java.lang.ProcessHandle.current().pid()))
    # Only what Spark has started is asked for its JVM: a program may have another one above it, an editor's say.
    if any(name.startswith(_SPARKS) for name in os.environ):
        for ancestor in processes.ancestors():
            if processes.is_java(ancestor.pid):
                return ancestor
    return processes.Process.of(os.getpid())


def _check_master(driver: processes.Process) -> None:
    """Refuse a master that is not local where it can be told here; else the first task tells (`check_reach`)."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    master = active.master if active is not None else processes.spark_master(driver.pid)
    if master is not None and not master.startswith("local"):
        fail("MISSING_URL", master=master)


def _directory(driver: processes.Process) -> Path:
    directory = Path(tempfile.gettempdir()) / f"pystreams-{os.getuid()}" / str(driver)
    for path in (directory.parent, directory):
        path.mkdir(mode=0o700, exist_ok=True)
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
            fail("EMBEDDED_NOT_STARTED", reason=f"{path} is not a directory of this user alone", log="no file")
    # An engine that never got ready leaves its log; it is kept for as long as its driver may be asked about it.
    for other in directory.parent.iterdir():
        gone = processes.Process.parse(other.name)
        if gone is not None and not gone.runs():
            shutil.rmtree(other, ignore_errors=True)
    return directory


def _of(directory: Path, driver: processes.Process, data: str | None) -> Address:
    identity = f"{socket.gethostname()}/{driver}"
    settings: list[str] = []
    if data is not None:
        place = (home() / data).expanduser().absolute()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = ["--dir", str(place), "--appendonly", "yes"]
        directory /= "data-" + sha256(os.fsencode(place)).hexdigest()[:16]
        directory.mkdir(mode=0o700, exist_ok=True)
    with _locked(directory / "lock"):
        said = _read(directory / "address")
        if said is None or not processes.runs(int(said["pid"])):
            said = _start(directory, driver, settings)
    return Address(str(said["url"]), identity)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return said


def _python(module: str) -> list[str]:
    """The command line that runs a module of this installation; arguments are appended to it."""
    bootstrap = Path(__file__).with_name("bootstrap.py")
    # A file in a zip archive cannot be run by its path, so there its text is given.
    program = [str(bootstrap)] if bootstrap.is_file() else ["-c", _text_of(bootstrap.name)]
    return [sys.executable, "-P", *program, str(_ROOT), module]


def _text_of(name: str) -> str:
    return resources.files("spark_streams.embedded").joinpath(name).read_text()


def _start(directory: Path, driver: processes.Process, settings: list[str]) -> dict[str, Any]:
    """Start the supervisor, which starts the engine and then writes the address."""
    command = (shlex.split(os.environ.get(COMMAND, "")) or [*_python("engine.__main__"), *_SETTINGS]) + settings
    log = directory / "log"
    (directory / "address").unlink(missing_ok=True)
    with log.open("ab") as output:
        supervisor = subprocess.Popen(
            [*_python("spark_streams.embedded.supervisor"), str(directory), str(driver), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            start_new_session=True,  # neither Ctrl-C nor the end of a worker's process group is meant for it
        )
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        said = _read(directory / "address")
        if said is not None:
            # The supervisor outlives this process or is reaped by its end; there is nothing to wait for.
            supervisor.returncode = 0
            return said
        if supervisor.poll() is not None:
            fail("EMBEDDED_NOT_STARTED", reason="it ended at once", log=log)
        time.sleep(0.01)
    supervisor.kill()
    return fail("EMBEDDED_NOT_STARTED", reason=f"it was not ready after {_START_SECONDS:g} seconds", log=log)
