"""Which process is the driver of a Spark application, as any of its processes on this machine can tell.

Spark plans Python sources in short-lived processes that it starts itself, not in the user's Python, and all of them
must find the same engine. So the engine belongs to a *driver*, which every process can name by itself:

* a process that Spark started, or that `spark-submit` runs, has the JVM among its ancestors: the JVM is the driver;
* a user's own Python program with a running SparkContext knows its JVM's process number: the same one;
* one that has no JVM yet is the driver itself. The JVM it starts later inherits its environment, and in it the variable
  PYSTREAMS_EMBEDDED, which says where the engine is to be found.

A driver is a process number with that process's start time, since numbers are used again. It has a directory in the
temporary directory, for its user alone.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from spark_streams.embedded import processes
from spark_streams.embedded.processes import Process
from spark_streams.embedded.record import PREFIX
from spark_streams.errors import fail

VARIABLE = "PYSTREAMS_EMBEDDED"
"""The environment variable that names the directory of the driver's engine, for processes that the driver starts."""

SET_BY_SPARK = ("PYTHON_WORKER_FACTORY_", "PYSPARK_GATEWAY_PORT")
"""How variables begin that Spark sets for its Python workers, and for the program that `spark-submit` runs."""


def find() -> tuple[Process, Path]:
    """The driver of this process, and its directory."""
    inherited = os.environ.get(VARIABLE)
    if inherited is not None:
        directory = Path(inherited)
        driver = Process.parse(directory.name)
        if driver is not None and driver.runs():
            return driver, directory
    driver = find_process()
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


def check_master(driver: Process) -> None:
    """Refuse a Spark master that is not local, where it can be told here; else the first task finds out."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    master = active.master if active is not None else processes.spark_master(driver.pid)
    if master is not None and not master.startswith("local"):
        fail("MISSING_URL", master=master)


def make_directory(driver: Process) -> Path:
    """The driver's directory, made if it is not there, and safe from other users."""
    directory = Path(tempfile.gettempdir()) / f"{PREFIX}{os.getuid()}" / str(driver)
    for path in (directory.parent, directory):
        path.mkdir(mode=0o700, exist_ok=True)
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
            fail("EMBEDDED_NOT_STARTED", reason=f"{path} is not a directory of this user alone", log="no file")
    # An engine that never got ready leaves its log; it is kept for as long as its driver may be asked about it.
    for other in directory.parent.iterdir():
        gone = Process.parse(other.name)
        if gone is not None and not gone.runs():
            shutil.rmtree(other, ignore_errors=True)
    return directory
