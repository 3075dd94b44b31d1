"""The end of the process in which Spark plans a streaming query: a SIGTERM, and the reader's `stop` is not called.

So what others wait for is given back by a handler of that signal. Other processes that use the connector keep theirs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType


def when_spark_ends_this_process(give_back: Callable[[], None]) -> None:
    """Call `give_back` when Spark ends this process, if it is one that Spark has started to plan a query."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if (
        spec is None
        or not spec.name.startswith("pyspark.")
        or threading.current_thread() is not threading.main_thread()
    ):
        return

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark may send it twice
        give_back()
        os._exit(128 + number)  # without the traceback of an exception

    signal.signal(signal.SIGTERM, end)
