"""Preparation of the processes that run and plan tasks: their log, and less garbage collection when Spark reuses them.

Such a process logs to its standard error, which Spark copies to the executor's standard error. Unless a handler is set,
Python prints warnings there without level and time.

After each task, and after each step of planning a batch read or write, Spark runs Python's garbage collector over all
objects of the process (`pyspark.daemon`). With Spark, pandas, pyarrow and this package loaded, nearly all objects are
parts of modules. A collection then takes about 40 ms of processor time, more than a small batch. `gc.freeze` excludes
existing objects from collection. Objects made later are collected as usual, and unreferenced objects are freed in any
case.
"""

from __future__ import annotations

import gc
import logging
import sys

_DAEMON = "pyspark.daemon"
_FORMAT, _TIME = "%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"  # like Spark's own log
_modules = 0  # number of modules loaded when they were last excluded


def prepare() -> None:
    """Prepare a Spark process at the start of a task or a plan. Does nothing in other processes."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name.startswith("pyspark."):
        _format_log()
        if spec.name == _DAEMON:
            _spare_modules()


def _spare_modules() -> None:
    """Exclude the loaded modules from the garbage collection that runs after each task."""
    global _modules  # noqa: PLW0603 - state of the process
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.freeze()


def _format_log() -> None:
    """Add a level and a time to log lines, unless the process has its own logging configuration."""
    logger = logging.getLogger("spark_streams")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT, _TIME))
        logger.addHandler(handler)
