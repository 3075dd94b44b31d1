"""Runs the embedded engine for as long as a driver process lives.

`bootstrap` runs `main` in a process of its own.
Starts COMMAND, waits for its `ready on HOST:PORT pid N`, writes the address into DIR and then watches: when the driver
ends, by whatever means, the engine is stopped and DIR removed; when the engine ends, so does the supervisor. Where the
system can tie a child's life to its parent's (Linux), the engine dies even if the supervisor is killed. Knows neither
Spark nor the engine beyond that line.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_streams.embedded.processes import Process

_READY = re.compile(rb"ready on (\S+):(\d+) pid (\d+)")
_LOOK_SECONDS = 0.5  # how often to look, where the system does not tell of a process's end
_STOP_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


def supervise(directory: Path, driver: Process, command: list[str]) -> int:
    """Run the engine until it or the driver ends."""
    engine = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=directory,
        preexec_fn=_die_with_parent(),  # noqa: PLW1509 - there are no threads here yet
    )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: engine.terminate())
    try:
        assert engine.stdout is not None
        found = _READY.search(engine.stdout.readline())
        if found is None:
            return 1
        url = f"redis://{found[1].decode()}:{int(found[2])}"
        _write(directory / "address", {"url": url, "pid": engine.pid, "supervisor": os.getpid()})
        _watch(driver, engine)
    finally:
        (directory / "address").unlink(missing_ok=True)
        _stop(engine)
        if not driver.runs():
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):  # other drivers of this user have theirs in it
                directory.parent.rmdir()
    return 0


def _die_with_parent() -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _write(path: Path, value: dict[str, object]) -> None:
    """All or nothing: others read this file whenever they like."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(value))
    draft.replace(path)


def _watch(driver: Process, engine: subprocess.Popen[bytes]) -> None:
    """Return when either has ended."""
    watched: list[Any] = []
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            watched = [os.pidfd_open(driver.pid), os.pidfd_open(engine.pid)]
    assert engine.stdout is not None
    while driver.runs() and engine.poll() is None:
        # What the engine prints is passed on to the log, lest its pipe fill up.
        readable, _, _ = select.select([*watched, engine.stdout], [], [], None if watched else _LOOK_SECONDS)
        if engine.stdout in readable:
            piece = os.read(engine.stdout.fileno(), 1 << 16)
            if not piece:
                engine.wait()
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def _stop(engine: subprocess.Popen[bytes]) -> None:
    engine.terminate()
    try:
        engine.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()


def main(arguments: list[str]) -> int:
    """Run with the arguments DIR DRIVER COMMAND...; the exit status."""
    directory, driver, *command = arguments
    watched = Process.parse(driver)
    if watched is None:
        raise ValueError(f"{driver!r} does not name a process")
    return supervise(Path(directory), watched, command)
