"""The processes that run tasks and that plan: their log, and what Spark's way of reusing them would cost each time.

The log of such a process is its standard error, which Spark copies to the executor's. Python prints warnings there
without level and time unless a handler is set.

After each task, and after each step of planning a batch read or write, Spark runs Python's garbage collector over all
objects of the process (`pyspark.daemon`). With Spark, pandas, pyarrow and this package loaded nearly all of them are
parts of modules, and this takes about 40 ms of processor time, more than a small batch. `gc.freeze` excludes existing
objects from the collector. Objects made later are collected as usual, and unreferenced objects are freed in any case.
"""

from __future__ import annotations

import gc
import logging
import sys

_DAEMON = "pyspark.daemon"
_FORMAT, _TIME = "%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"  # as Spark's own lines
_modules = 0  # how many were loaded when they were put out of sight


def prepare() -> None:
    """Prepare a process of Spark's: a task or a plan has begun. Does nothing in other processes."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name.startswith("pyspark."):
        _format_log()
        if spec.name == _DAEMON:
            _spare_modules()


def _spare_modules() -> None:
    """Put the modules out of the garbage collector's sight, which runs after each task."""
    global _modules  # noqa: PLW0603 - it is the process's
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.freeze()


def _format_log() -> None:
    """Give lines of the log a level and a time, unless the process has a log of its own."""
    logger = logging.getLogger("spark_streams")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT, _TIME))
        logger.addHandler(handler)
