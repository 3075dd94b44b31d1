"""A verb started by another process: it receives settings through standard input, and ends with its parent.

The first line of standard input is a JSON object of connection options, so passwords appear neither in arguments nor in
the environment. The parent keeps the pipe open until it ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from pystreams.connect.target import Wanted
from pystreams.errors import fail


def wanted(pipe: BinaryIO | None = None) -> Wanted:
    """Return the server that the parent chose. Raises INVALID_VALUE if the input is malformed."""
    line = (pipe or sys.stdin.buffer).readline()
    try:
        given = json.loads(line)
        url = given.pop("url")
    except (ValueError, AttributeError, KeyError, TypeError):
        fail("INVALID_VALUE", name="standard input", value="", expected="--from-parent needs a JSON object with a url")
    return Wanted(str(url), None, {str(name): str(value) for name, value in given.items()})


def end_with_parent(end: Callable[[], None] = lambda: os._exit(0), pipe: BinaryIO | None = None) -> None:
    """Call `end` in a thread when standard input closes, which means that the parent has ended.

    The thread reads the file descriptor, not the buffer: Python aborts at exit if a thread waits in the buffer.
    """
    number = (pipe or sys.stdin.buffer).fileno()

    def watch() -> None:
        while os.read(number, 1 << 10):
            pass
        end()

    threading.Thread(target=watch, name="pystreams-parent", daemon=True).start()
