"""Which process is the driver of a Spark application, as any of its processes on this machine can tell.

Spark plans Python sources in short-lived processes that it starts itself, not in the user's Python, and all of them
must find the same engine. So the engine belongs to a *driver*, which every process can name by itself:

* a process that Spark started, or that `spark-submit` runs, has the JVM among its ancestors: the JVM is the driver;
* a user's own Python program with a running SparkContext knows its JVM's process number: the same one;
* one that has no JVM yet is the driver itself. The JVM it starts later inherits its environment, and in it the variable
  PYSTREAMS_EMBEDDED, which says where the engine is to be found.

A driver is a process number with that process's start time, since numbers are used again. It has a directory for its
user alone (mode 0700), where its engines listen on Unix sockets. It is in the temporary directory, or in /tmp where
that directory's name is too long for the path of a socket.

A client of Spark Connect is no driver: the sources are planned where the server is, which has an engine of its own.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from spark_streams.embedded import processes
from spark_streams.embedded.processes import Process
from spark_streams.embedded.record import PREFIX
from spark_streams.errors import fail

VARIABLE = "PYSTREAMS_EMBEDDED"
"""The environment variable that names the directory of the driver's engine, for processes that the driver starts."""

SOCKET = "socket"
"""The Unix socket that an engine listens on, in the driver's directory or in that of its data (`data_directory`)."""

_PATH_BYTES = 100  # systems differ in how long the path of a Unix socket may be: from 103 to 107 bytes

SET_BY_SPARK = ("PYTHON_WORKER_FACTORY_", "PYSPARK_GATEWAY_PORT")
"""How variables begin that Spark sets for its Python workers, and for the program that `spark-submit` runs."""


def find() -> tuple[Process, Path]:
    """The driver of this process, and its directory."""
    inherited = os.environ.get(VARIABLE)
    if inherited is not None:
        directory = Path(inherited)
        driver = Process.parse(directory.name)
        if driver is not None and driver.runs():
            check_client(driver)
            return driver, directory
    driver = find_process()
    check_client(driver)
    check_master(driver)
    directory = make_directory(driver)
    if driver.pid == os.getpid():
        os.environ[VARIABLE] = str(directory)
    return driver, directory


def is_ours(driver: Process) -> bool:
    """Whether this process belongs to that driver."""
    if os.environ.get(VARIABLE, "").endswith(f"/{driver}"):
        return True
    return driver in (Process.of(os.getpid()), *processes.ancestors())


def find_process() -> Process:
    """The process whose life the engine shares."""
    # The JVM outlives its SparkContext, and serves the next one too.
    jvm = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_jvm", None)
    if jvm is not None:
        return Process.of(int(jvm.java.lang.ProcessHandle.current().pid()))
    # Only what Spark has started is asked for its JVM: a program may have another one above it, that of an editor say.
    if any(name.startswith(SET_BY_SPARK) for name in os.environ):
        for ancestor in processes.ancestors():
            if processes.is_java(ancestor.pid):
                return ancestor
    return Process.of(os.getpid())


def check_client(driver: Process) -> None:
    """Refuse a client of Spark Connect: an engine that it starts is another one than that of the server's queries."""
    if driver.pid != os.getpid():
        return
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ or not os.environ.get("SPARK_REMOTE", "local").startswith("local"):
        fail("CONNECT_CLIENT")


def check_master(driver: Process) -> None:
    """Refuse a Spark master that is not local, where it can be told here; else the first task finds out."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    master = active.master if active is not None else processes.spark_master(driver.pid)
    if master is not None and not master.startswith("local"):
        fail("MISSING_URL", master=master)


def data_directory(directory: Path, place: Path) -> Path:
    """Where the engine that keeps its data in `place` has its socket and its record, below the driver's directory."""
    return directory / ("data-" + sha256(os.fsencode(place)).hexdigest()[:16])


def make_directory(driver: Process) -> Path:
    """The driver's directory, made if it is not there, and safe from other users."""
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
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
            fail("EMBEDDED_NO_DIRECTORY", reason=f"{path} is there, and is not a directory of this user alone")
    # An engine that never got ready leaves its log; it is kept for as long as its driver may be asked about it.
    for other in directory.parent.iterdir():
        gone = Process.parse(other.name)
        if gone is not None and not gone.runs():
            shutil.rmtree(other, ignore_errors=True)
    return directory
