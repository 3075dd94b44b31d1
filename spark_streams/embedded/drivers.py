"""Identification of a Spark application's driver process by any of the application's processes on this machine.

Spark plans Python sources in short-lived processes that it starts itself, not in the user's Python. All these processes
must find the same engine. So the engine belongs to a *driver*, which every process can determine:

* A process that Spark started, or that `spark-submit` runs, has the JVM among its ancestors: the JVM is the driver.
* A user's Python program with a running SparkContext knows the process ID of its JVM, which is the same driver.
* A program without a JVM is the driver itself. A JVM that the program starts later inherits the program's environment,
  with the variable PYSTREAMS_EMBEDDED, which contains the engine's directory.

A driver is identified by its process ID and start time, because process IDs are reused. Each driver has a directory
that only its user can access (mode 0700), where its engines listen on Unix sockets. This directory is below the
temporary directory, or below /tmp if the temporary directory's path is too long for a socket.

A client of Spark Connect is not a driver: its sources are planned on the server, which has its own engine.

Facts about processes come from /proc on Linux, and from the output of `ps` elsewhere. The Spark master, and whether the
program is a service for other programs, are determined only from command lines and Spark's files.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from spark_streams.errors import fail

if TYPE_CHECKING:
    from streamclient.config.address import Address


_PROC = Path("/proc")
_CONF = "SPARK_CONF_DIR"
_SHOWN = 80  # maximum characters of a command line in a message


@dataclass(frozen=True)
class Process:
    """A process: its ID, and its start time in the system's unit, because IDs are reused.

    Its text form is `PID-START`, which `parse` reads.
    """

    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.pid}-{self.started}"

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, _stat(pid)[1])

    @classmethod
    def parse(cls, text: str) -> Process | None:
        pid, _, started = text.partition("-")
        return cls(int(pid), started) if pid.isdigit() and started else None

    def runs(self) -> bool:
        """Return whether this process is still running, not another process with the same ID."""
        return runs(self.pid) and _stat(self.pid)[1] == self.started


def runs(pid: int) -> bool:
    """Return whether a process with this ID is running. A zombie does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _stat(pid)[2] != "Z"


def ancestors() -> Iterator[Process]:
    """Yield the ancestors of this process, parent first. Includes process 1, which may be the driver in a container."""
    pid = os.getppid()
    while pid > 0:
        parent, started, _ = _stat(pid)
        if not started:
            return
        yield Process(pid, started)
        pid = parent


def is_java(pid: int) -> bool:
    """Return whether the process is a JVM."""
    return Path((command_line(pid) or [""])[0]).name == "java"


def is_running(words: Sequence[str]) -> bool:
    """Return whether any process has this sequence of words on its command line."""
    wanted = list(words)
    for given in _commands():
        if any(given[at : at + len(wanted)] == wanted for at in range(len(given) - len(wanted) + 1)):
            return True
    return False


def spark_master(pid: int) -> str | None:
    """Return the Spark master of a JVM; None if its command line and Spark's files do not name one.

    On the command line, the first `--master M` or `--conf spark.master=M` names the master. Otherwise it is searched in
    the file of `--properties-file` (drivers in YARN and Kubernetes). Without this argument, it is searched in
    spark-defaults.conf in SPARK_CONF_DIR.
    """
    words = command_line(pid)
    files = [Path(os.environ[_CONF], "spark-defaults.conf")] if _CONF in os.environ else []
    for word, following in itertools.pairwise(words):
        if word == "--master":
            return following
        if word in ("--conf", "-c") and following.startswith("spark.master="):
            return following.removeprefix("spark.master=")
        if word == "--properties-file":
            files = [Path(following)]
    return next((master for file in files if (master := _master_in(file)) is not None), None)


def _master_in(properties: Path) -> str | None:
    """Return `spark.master` in a properties file; None if the file lacks it or cannot be read."""
    try:
        found = re.findall(r"^\s*spark\.master\s*[\s=:]\s*(\S+)", properties.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return found[-1].replace("\\", "") if found else None  # colons are escaped: k8s\://https\://...


def spark_service() -> str | None:
    """Return a description of the service that this process belongs to; None if it belongs to an application.

    A service runs queries of other programs. The JVM of a pipeline has the program cli.py of pyspark as its parent.
    """
    for process in ancestors():
        for word in command_line(process.pid):
            if word.endswith("pyspark/pipelines/cli.py"):
                return "a declarative pipeline (spark-pipelines)"
            if word == "org.apache.spark.sql.connect.service.SparkConnectServer":
                return "a Spark Connect server"
    return None


def shown(pid: int) -> str:
    """Return a process's command line for a message. The middle is omitted if the command line is long."""
    text = " ".join(command_line(pid)).strip()
    return text if len(text) <= _SHOWN else f"{text[:20]}...{text[23 - _SHOWN :]}"


def value_of(pid: int, word: str) -> str | None:
    """Return the word that follows `word` on a process's command line; None if there is no such word."""
    return next((following for each, following in itertools.pairwise(command_line(pid)) if each == word), None)


def _stat(pid: int) -> tuple[int, str, str]:
    """Return the parent's ID, the start time and the state; (0, "", "") if the process does not exist."""
    if _PROC.joinpath("self").exists():
        try:
            # The second field is the command's name in parentheses, and may contain spaces and parentheses.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0, "", ""
        return int(fields[1]), fields[19], fields[0]
    columns = _ps(pid, "ppid=,state=,lstart=").split()
    if len(columns) < 3:
        return 0, "", ""
    parent, state, *started = columns
    return int(parent), "".join(started).replace(":", ""), state[0]


def _commands() -> Iterator[list[str]]:
    """Yield the words of each running process's command line, if this user may read it."""
    if _PROC.joinpath("self").exists():
        yield from (command_line(int(each.name)) for each in _PROC.iterdir() if each.name.isdigit())
        return
    lines = subprocess.run(["ps", "-axwwo", "command="], capture_output=True, text=True, check=False).stdout
    yield from (line.split() for line in lines.splitlines())


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line; no words if this user may not read it."""
    if _PROC.joinpath("self").exists():
        try:
            return [word.decode(errors="replace") for word in (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
    return _ps(pid, "command=").split()


def _ps(pid: int, columns: str) -> str:
    return subprocess.run(["ps", "-o", columns, "-p", str(pid)], capture_output=True, text=True, check=False).stdout


# -- drivers ----------------------------------------------------------------------------------------------------------

#: Prefix of a user's directory in the temporary directory. It has a subdirectory for each driver, named by the text of
#: the driver's `Process`.
PREFIX = "pystreams-"

#: Environment variable with the directory of the driver's engine, for processes that the driver starts.
VARIABLE = "PYSTREAMS_EMBEDDED"

#: Name of an engine's Unix socket, in the driver's directory or in the result of `data_directory`.
SOCKET = "socket"

_DATA_PREFIX = "data-"  # prefix of the directories of engines that keep their data
_PATH_BYTES = 100  # maximum length of a socket's path; systems allow between 103 and 107 bytes

#: Prefixes of variables that Spark sets for its Python workers, and for the program that `spark-submit` runs.
SET_BY_SPARK = ("PYTHON_WORKER_FACTORY_", "PYSPARK_GATEWAY_PORT")


def find(*, persistent: bool = False) -> tuple[Process, Path]:
    """Return this process's driver, and the driver's directory. `persistent`: whether the engine stores data on disk.

    Raises CONNECT_CLIENT, MISSING_URL or EMBEDDED_NOT_KEPT if the embedded engine cannot serve this driver. Raises
    EMBEDDED_NO_DIRECTORY if the directory cannot be created.
    """
    inherited = os.environ.get(VARIABLE)
    directory = None if inherited is None else Path(inherited)
    driver = None if directory is None else Process.parse(directory.name)
    if driver is None or not driver.runs():
        driver, directory = find_process(), None
    check_client(driver)
    jvm = _jvm()
    check_master(jvm)
    if not persistent:
        check_service()
    if directory is None:
        directory = make_directory(driver)
        if driver.pid == os.getpid():
            os.environ[VARIABLE] = str(directory)
    return driver, directory


def check_reach(server: Address) -> None:
    """Raise EMBEDDED_OUT_OF_REACH for another driver's embedded engine, which may be on another machine."""
    if not server.driver:
        return
    host, _, name = server.driver.partition("/")
    process = Process.parse(name)
    if host != socket.gethostname() or process is None or not is_ours(process):
        here = f"host {socket.gethostname()}, process {os.getpid()}"
        fail("EMBEDDED_OUT_OF_REACH", driver=server.driver, here=here)


def is_ours(driver: Process) -> bool:
    """Return whether this process belongs to that driver."""
    if os.environ.get(VARIABLE, "").endswith(f"/{driver}"):
        return True
    return driver in (Process.of(os.getpid()), *ancestors())


def find_process() -> Process:
    """Return the driver's process. The engine ends when the driver ends."""
    return _jvm() or Process.of(os.getpid())


def _jvm() -> Process | None:
    """Return the driver's JVM; None if the program has not started one."""
    # The JVM outlives its SparkContext and is reused by the next SparkContext.
    jvm = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_jvm", None)
    if jvm is not None:
        return Process.of(int(jvm.java.lang.ProcessHandle.current().pid()))
    # Search the ancestors only if Spark started this process: other programs may run under an unrelated JVM, such as an
    # IDE's.
    if any(name.startswith(SET_BY_SPARK) for name in os.environ):
        return next((ancestor for ancestor in ancestors() if is_java(ancestor.pid)), None)
    return None


def check_client(driver: Process) -> None:
    """Refuse a Spark Connect client, whose engine would differ from the engine that the server's queries use."""
    if driver.pid != os.getpid():
        return
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ or not os.environ.get("SPARK_REMOTE", "local").startswith("local"):
        fail("CONNECT_CLIENT")


def check_master(jvm: Process | None) -> None:
    """Refuse a Spark master that is not local. If the master is unknown here, tasks on other machines fail later."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    master = active.master if active is not None else None if jvm is None else spark_master(jvm.pid)
    if master is not None and not master.startswith("local"):
        fail("MISSING_URL", master=master)


def check_service() -> None:
    """Refuse a Spark service: its client programs would lose their entries without notice when the service ends."""
    service = spark_service()
    if service is not None:
        fail("EMBEDDED_NOT_KEPT", program=service)


def data_directory(directory: Path, data: Path) -> Path:
    """Return the directory, below `directory`, for the socket and record of the engine with its data in `data`."""
    return directory / (_DATA_PREFIX + sha256(os.fsencode(data)).hexdigest()[:16])


def make_directory(driver: Process) -> Path:
    """Return the driver's directory. The directory is created if missing, and only this user can access it."""
    below = Path(f"{PREFIX}{os.getuid()}", str(driver))
    directory = tempfile.gettempdir() / below
    if len(os.fsencode(data_directory(directory, Path("/")) / SOCKET)) > _PATH_BYTES:
        directory = "/tmp" / below  # noqa: S108 - its mode and owner are checked here
    for path in (directory.parent, directory):
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass
        except OSError as problem:
            fail("EMBEDDED_NO_DIRECTORY", reason=problem)
        if not _is_private(path):
            fail(
                "EMBEDDED_NO_DIRECTORY", reason=f"{path} exists, but is not a directory that only this user can access"
            )
    # Remove directories of drivers that have ended. They may contain the log of an engine that failed to start.
    for other in directory.parent.iterdir():
        process = Process.parse(other.name)
        if process is not None and not process.runs():
            shutil.rmtree(other, ignore_errors=True)
    return directory


def _is_private(path: Path) -> bool:
    """Return whether the path is a directory that this user owns and only this user can access."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def directories() -> Iterator[tuple[Process, Path]]:
    """Yield pairs of each running driver of this user: with its directory, and with each engine's data directory.

    A directory may have no running engine.
    """
    for temporary in dict.fromkeys((tempfile.gettempdir(), "/tmp")):  # noqa: S108 - mode and owner are checked here
        above = Path(temporary, f"{PREFIX}{os.getuid()}")
        for directory in sorted(above.iterdir()) if _is_private(above) else []:
            driver = Process.parse(directory.name)
            if driver is not None and driver.runs() and _is_private(directory):
                yield driver, directory
                for engine_directory in sorted(directory.glob(_DATA_PREFIX + "*")):
                    yield driver, engine_directory
