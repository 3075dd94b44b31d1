"""Preparation of the processes that run and plan tasks: their log, their socket, and less garbage collection.

Such a process logs to its standard error, which Spark copies to the executor's standard error. Unless a handler is set,
Python prints warnings there without level and time.

Spark sends a task in two parts, the command and the input, over TCP with Nagle's algorithm: the second part waits until
the first one is acknowledged. The process sends nothing in between, so Linux would acknowledge the first part only
after 40 ms. The process unpickles the command before it reads the input, and then acknowledges at once.

After each task, and after each step of planning a batch read or write, Spark runs Python's garbage collector over all
objects of the process (`pyspark.daemon`). With Spark, pandas, pyarrow and this package loaded, nearly all objects are
parts of modules. A collection then takes about 40 ms of processor time, more than a small batch. `gc.freeze` excludes
existing objects from collection. Objects made later are collected as usual, and unreferenced objects are freed in any
case.
"""

from __future__ import annotations

import gc
import logging
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_DAEMON = "pyspark.daemon"
_FORMAT, _TIME = "%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"  # like Spark's own log
excluded = 0  # number of modules loaded when they were last excluded


class TaskCopy:
    """Base class of readers and writers: each task unpickles a copy, which prepares the task's process."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        prepare()


def prepare() -> None:
    """Prepare a Spark process at the start of a task or a plan. Does nothing in other processes."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name.startswith("pyspark."):
        _format_log()
        acknowledge()
        if spec.name == _DAEMON:
            _spare_modules()


def acknowledge() -> None:
    """Acknowledge what the process's TCP sockets have received, if the system can.

    If a default timeout is set, do nothing: a socket object would then make Spark's socket non-blocking.
    """
    if not hasattr(socket, "TCP_QUICKACK") or socket.getdefaulttimeout() is not None:  # only Linux has the option
        return
    for entry in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # not a socket, or closed
            _acknowledge(int(entry.name))


def _acknowledge(descriptor: int) -> None:
    link = socket.socket(fileno=descriptor)
    try:
        if link.type == socket.SOCK_STREAM and link.family in (socket.AF_INET, socket.AF_INET6):
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        link.detach()


def _spare_modules() -> None:
    """Exclude the loaded modules from the garbage collection that runs after each task."""
    global excluded  # noqa: PLW0603 - state of the process
    if len(sys.modules) != excluded:
        excluded = len(sys.modules)
        gc.freeze()


def _format_log() -> None:
    """Add a level and a time to log lines, unless the process has its own logging configuration."""
    logger = logging.getLogger("spark_streams")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT, _TIME))
        logger.addHandler(handler)
