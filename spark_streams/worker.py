"""The processes that run tasks and that plan: what Spark's way of reusing them would cost each time.

After each task, and after each step of planning a batch read or write, Spark has Python's garbage collector look at
every object of the process (`pyspark.daemon`). With Spark, pandas, pyarrow and this package loaded nearly all of them
are parts of modules, and looking at them takes some 40 ms of processor time: more than a small batch does. `gc.freeze`
puts what is there out of the collector's sight. Whatever is made later is collected as ever, and what nobody refers to
any more is freed in any case.
"""

from __future__ import annotations

import gc
import sys

_WORKER = "pyspark.daemon"
_modules = 0  # how many were loaded when they were put out of sight


def spare_modules() -> None:
    """Put the modules out of the garbage collector's sight, where Spark runs it: a task or a plan has begun."""
    global _modules  # noqa: PLW0603 - it is the process's
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == _WORKER and len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.freeze()
