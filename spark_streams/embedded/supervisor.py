"""Supervisor of the embedded engine: runs the engine until the driver process ends.

The launcher starts the supervisor through `streamwire.bootstrap`, with the arguments DIR DRIVER LOCK COMMAND... The
supervisor starts COMMAND, waits for the line `ready on unix:PATH pid N` (or `HOST:PORT`), records the address in DIR,
and watches both processes. It stops the engine and removes DIR when the driver ends, and exits when the engine ends.
`life` has the states and transitions; this module carries them out on processes and files.

LOCK is a file descriptor that holds the launcher's lock on DIR. The descriptor stays open until the first record is
written, so that no second supervisor can start in DIR even if the launcher is killed.

When an in-memory engine ends, its data is lost. The loss is reported on the driver's standard error, where the user
sees it. The supervisor opens this file early, so that it can write after the driver has ended. Outside Linux the report
goes only to the log.

On Linux the engine also ends if the supervisor is killed. The supervisor depends on the engine only through two lines
of output: the ready line above, and `missing package NAME`, by which `streamwire.bootstrap` reports a missing package.
The supervisor does not depend on Spark.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from spark_streams.embedded import discards, life, record
from spark_streams.embedded.life import Event, State
from spark_streams.embedded.processes import Process
from spark_streams.embedded.record import PREFIX, Record

_READY = re.compile(rb"ready on (?:unix:(.+)|(\S+):(\d+)) pid \d+")
_MISSING = re.compile(rb"missing package (\S+)")
_LOOK_SECONDS = 0.5  # polling interval on systems without notification of a process's end
_PR_SET_PDEATHSIG = 1  # option of prctl: a signal for this process when its parent ends


class Output:
    """The engine's output. It is searched for the ready line and a missing package, and copied to the log."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor: int | None = descriptor  # None after the end of the output
        self.url = ""
        self.missing = ""
        self._line = b""  # the last line, if it is incomplete

    def read(self) -> None:
        """Read the available output without waiting for more."""
        while self.descriptor is not None:
            try:
                printed = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return
            if not printed:
                self.descriptor = None
            _log(printed)
            *lines, self._line = (self._line + printed).split(b"\n")
            if not self.url:
                self._search(lines)

    def _search(self, lines: list[bytes]) -> None:
        for line in lines:
            if found := _READY.search(line):
                self.url = _socket_url(found[1]) if found[1] else _port_url(found[2].decode(), int(found[3]))
            elif found := _MISSING.match(line):
                self.missing = found[1].decode()


def _socket_url(path: bytes) -> str:
    return f"unix://{quote(path)}"


def _port_url(host: str, port: int) -> str:
    return f"redis://[{host}]:{port}" if ":" in host else f"redis://{host}:{port}"


class Notices:
    """Messages to the driver's user about the engine's end, on the driver's standard error and in the log.

    Standard error is opened again in non-blocking mode, so that a full pipe does not block the supervisor. It is closed
    after the last message, because programs that read the driver's standard error to its end wait until then.
    """

    def __init__(self, driver: Process) -> None:
        self._descriptor: int | None = None
        if discards.notices():
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
                self._descriptor = os.open(f"/proc/{driver.pid}/fd/2", flags)

    def last(self, text: str) -> None:
        """Write the text unless it is empty, and close the file."""
        line = f"pystreams: {text}\n".encode()
        if text:
            _log(line)
        if self._descriptor is not None:
            if text:
                with contextlib.suppress(OSError):
                    os.write(self._descriptor, line)
            os.close(self._descriptor)
            self._descriptor = None


def _log(printed: bytes) -> None:
    with contextlib.suppress(OSError):  # a full disk must not stop the engine
        os.write(sys.stdout.fileno(), printed)


class ProcessHost:
    """Host of an engine as a child process: watches the driver, and writes the record in the directory."""

    def __init__(self, directory: Path, driver: Process, lock: int, command: list[str]) -> None:
        self._directory = directory
        self._driver = driver
        self._lock: int | None = lock
        self._command = command
        self._record = Record(State.NOT_STARTED, Process.of(os.getpid()))
        self._notices = Notices(driver)
        self._events: deque[Event] = deque()
        self._reported: set[Event] = set()
        self._engine: subprocess.Popen[bytes] | None = None
        self._output: Output | None = None
        #: Descriptors that become readable when a process ends. Empty on systems without such descriptors, where
        #: processes are polled.
        self._ends: dict[Event, int] = {}
        self._asked, asking = os.pipe()
        os.set_blocking(self._asked, False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: os.write(asking, b"."))

    def start(self) -> Event:
        try:
            self._engine = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                cwd=self._directory,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - there are no threads here yet
            )
        except OSError as error:
            self._record = replace(self._record, reason=f"{self._command[0]}: {error.strerror}")
            return Event.NOT_RUNNABLE
        assert self._engine.stdout is not None
        self._output = Output(self._engine.stdout.fileno())
        self._record = replace(self._record, engine=Process.of(self._engine.pid))
        for event, pid in ((Event.ENGINE_ENDED, self._engine.pid), (Event.DRIVER_ENDED, self._driver.pid)):
            if hasattr(os, "pidfd_open"):
                with contextlib.suppress(OSError):
                    self._ends[event] = os.pidfd_open(pid)
        return Event.STARTED

    def next_event(self, seconds: float | None) -> Event | None:
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            self._collect()
            if self._events:
                return self._events.popleft()
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._wait(left)

    def entered(self, state: State) -> None:
        if self._record.state is State.READY:
            self._notices.last(self._loss(state))
        if state is State.STOPPING:
            self._child.terminate()
        elif state in (State.KILLING, State.GIVING_UP):
            self._child.kill()
        self._record = replace(self._record, state=state, reason=self._reason(state))
        if self._output is not None:
            self._record = replace(self._record, url=self._output.url, missing=self._output.missing)
        if state is State.ENDED:
            record.remove(self._directory)
        else:
            self._record.write(self._directory)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _loss(self, state: State) -> str:
        """Return a text about the end of a ready engine and the lost data; empty if there is nothing to report."""
        if not discards.notices():
            return ""
        if state is State.STOPPING:
            return discards.sentence(self._record.url)
        ended = f"The embedded engine ended before its driver (status {self._child.returncode})."
        if ("--appendonly", "yes") in itertools.pairwise(self._command):
            return f"{ended} The next query starts it again with the data in its directory."
        return f"{ended} Entries that it kept in memory are lost; the next query starts an empty engine."

    def _reason(self, state: State) -> str:
        """Return the reason for a failure; empty if the engine has not failed."""
        if state is State.GIVING_UP:
            return f"it was not ready after {life.LIMITS[State.STARTING][0]:g} seconds"
        if state is State.FAILED:
            return self._record.reason or f"it ended with status {self._child.returncode}"
        return ""

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self._engine is not None, "there is a process in every state that has events"
        return self._engine

    def _collect(self) -> None:
        """Collect the events since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._asked, 1 << 10)
            self._events.append(Event.STOP_ASKED)
        ended = self._child.poll() is not None  # checked before reading, so that no output is missed
        assert self._output is not None
        self._output.read()
        happened = {
            Event.ANNOUNCED: bool(self._output.url),
            Event.DRIVER_ENDED: not self._driver.runs(),
            Event.ENGINE_ENDED: ended,
        }
        for event, true in happened.items():
            if true and event not in self._reported:
                self._reported.add(event)
                self._events.append(event)
                if event in self._ends:
                    os.close(self._ends.pop(event))

    def _wait(self, seconds: float | None) -> None:
        """Wait until there may be an event, for at most `seconds`."""
        assert self._output is not None
        watched = [self._asked, *self._ends.values()]
        if self._output.descriptor is not None:
            watched.append(self._output.descriptor)
        if {Event.ENGINE_ENDED, Event.DRIVER_ENDED} - self._reported - self._ends.keys():
            seconds = _LOOK_SECONDS if seconds is None else min(seconds, _LOOK_SECONDS)
        select.select(watched, [], [], seconds)

    def close(self) -> None:
        """Kill the engine if it is running, even after an error in the supervisor.

        Remove the directory if the driver has ended.
        """
        if self._engine is not None:
            self._engine.kill()
            self._engine.wait()
        if not self._driver.runs():
            _remove(self._directory)


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


def main(arguments: list[str]) -> int:
    """Run the supervisor with the arguments DIR DRIVER LOCK COMMAND...

    Returns 1 if the engine failed to start, and 0 otherwise.
    """
    directory, name, lock, *command = arguments
    driver = Process.parse(name)
    if driver is None:
        raise ValueError(f"{name!r} does not name a process")
    host = ProcessHost(Path(directory), driver, int(lock), command)
    try:
        return 0 if life.run(host, time.monotonic) is State.ENDED else 1
    finally:
        host.close()
