"""Shared parts of the small programs. Each is run as ``python NAME.py worker URL`` or ``python NAME.py drive URL``.

A driver submits jobs, prints ``half`` when half of them are done (so that the test kills a worker), and prints the
results as one line of JSON. If a job is lost with a killed worker and the program does not deliver it again, the driver
submits it once more, as a user of that program would.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

#: Number of jobs; seconds without progress after which jobs are submitted again; seconds after which the driver fails.
JOBS, AGAIN, DEADLINE = int(os.environ["JOBS"]), float(os.environ["AGAIN"]), 240.0


def mode() -> tuple[str, str]:
    """Return ``worker`` or ``drive``, and the server's URL."""
    return sys.argv[1], sys.argv[2]


def half() -> None:
    """Tell the test that it may kill a worker now."""
    print("half", flush=True)


def report(**facts: Any) -> None:
    """Print the results, with which the driver ends."""
    print(json.dumps(facts, sort_keys=True), flush=True)


def squares(submit: Callable[[int], Any], result: Callable[[Any], int | None]) -> list[int]:
    """Submit the numbers below JOBS as jobs, and return their squares. ``submit`` returns a handle, ``result`` the
    job's result, or None if it is not done.
    """
    handles = {number: submit(number) for number in range(JOBS)}
    done: dict[int, int] = {}
    end, news = time.monotonic() + DEADLINE, time.monotonic()
    reported = False
    while len(done) < JOBS:
        for number in handles.keys() - done.keys():
            value = result(handles[number])
            if value is not None:
                done[number], news = value, time.monotonic()
        if len(done) >= JOBS // 2 and not reported:
            reported = True
            half()
        if time.monotonic() - news > AGAIN:
            news = time.monotonic()
            for number in handles.keys() - done.keys():
                handles[number] = submit(number)
        if time.monotonic() > end:
            raise TimeoutError(f"{JOBS - len(done)} jobs have no result")
        time.sleep(0.02)
    return [done[number] for number in range(JOBS)]
