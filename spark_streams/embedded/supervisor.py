"""Supervisor of the embedded engine: runs the engine until the driver process ends.

The launcher starts it through `streamwire.bootstrap`, with the arguments DIR DRIVER LOCK COMMAND... The supervisor

1. starts COMMAND, whose output is appended to its own, the log in DIR, and records both processes in DIR;
2. closes LOCK, a descriptor that holds the launcher's lock on DIR: until there is a record, no second supervisor can
   start in DIR, even if the launcher is killed;
3. waits until the engine ends, the driver ends, or a signal asks it to end;
4. stops the engine if it is still running, after removing the record, and removes DIR if the driver has ended.

The record is a file that is replaced atomically. It remains if the engine ends by itself. On Linux the engine also ends
if the supervisor is killed. The supervisor does not depend on Spark, or on the engine's protocol and output.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from spark_streams.embedded.drivers import PREFIX, Process

_STOP_SECONDS = 5.0  # time after which an engine that does not stop is killed
_LOOK_SECONDS = 0.5  # interval at which the driver is looked up
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1  # option of prctl: a signal for this process when its parent ends
_NAME = "processes"


@dataclass(frozen=True)
class Record:
    """The processes of an engine, as they were started."""

    supervisor: Process
    engine: Process

    def write(self, directory: Path) -> None:
        """Replace the directory's record atomically: readers see either the old record or this one."""
        draft = directory / (_NAME + ".new")
        draft.write_text(f"{self.supervisor}\n{self.engine}\n")
        draft.replace(directory / _NAME)


def record_in(directory: Path) -> Record | None:
    """Return the directory's record; None if it does not exist."""
    try:
        supervisor, engine = map(Process.parse, (directory / _NAME).read_text().split())
    except FileNotFoundError:
        return None
    assert supervisor is not None
    assert engine is not None
    return Record(supervisor, engine)


def remove_record(directory: Path) -> None:
    (directory / _NAME).unlink(missing_ok=True)


def main(arguments: list[str], stop_seconds: float = _STOP_SECONDS) -> int:
    """Run the supervisor with the arguments DIR DRIVER LOCK COMMAND...

    Returns 0 if it has stopped the engine, and otherwise the engine's exit status, or the number of its signal.
    """
    name, driver_name, lock, *command = arguments
    directory, driver = Path(name), Process.parse(driver_name)
    if driver is None:
        raise ValueError(f"{driver_name!r} does not name a process")
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGCHLD, *_STOPS):
        signal.signal(number, lambda received, _: signals.put(received))
    engine = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        cwd=directory,
        preexec_fn=_die_with_parent(),  # noqa: PLW1509 - there are no threads here
    )
    try:
        Record(Process.of(os.getpid()), Process.of(engine.pid)).write(directory)
        os.close(int(lock))
        while engine.poll() is None and driver.runs():
            with contextlib.suppress(Empty):
                if signals.get(timeout=_LOOK_SECONDS) in _STOPS:
                    break
        if engine.poll() is not None:
            return int(abs(engine.returncode))
        remove_record(directory)
        engine.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(stop_seconds)
        return 0
    finally:
        engine.kill()
        engine.wait()
        if not driver.runs():
            _remove(directory)


def _die_with_parent() -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _remove(directory: Path) -> None:
    """Remove the directory, and its parents up to this user's directory if they become empty."""
    shutil.rmtree(directory, ignore_errors=True)
    for parent in directory.parents:
        try:
            parent.rmdir()
        except OSError:  # not empty: other engines have directories there
            return
        if parent.name.startswith(PREFIX):
            return
