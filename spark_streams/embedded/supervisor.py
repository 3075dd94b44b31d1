"""Supervisor of the embedded engine: runs the engine until the driver process ends.

The launcher starts the supervisor through `streamwire.bootstrap`, with the arguments DIR DRIVER LOCK COMMAND... The
supervisor starts COMMAND, waits for the line `ready on unix:PATH pid N` (or `HOST:PORT`), records the address in DIR,
and watches both processes. It stops the engine and removes DIR when the driver ends, and exits when the engine ends.
`run` carries out the table of states on a host, which owns the processes and files.

The record is a file that the supervisor replaces atomically and the launcher reads. It is created when the engine has
been started, and removed when the engine ends. If the engine failed to start, the file remains.

LOCK is a file descriptor that holds the launcher's lock on DIR. The descriptor stays open until the first record is
written, so that no second supervisor can start in DIR even if the launcher is killed.

When an in-memory engine ends, its data is lost. Entries that consumer groups have not read or acknowledged by then are
reported on the driver's standard error, where the user sees it. The supervisor opens this file early, so that it can
write after the driver has ended. Outside Linux the report goes only to the log.

On Linux the engine also ends if the supervisor is killed. The supervisor depends on the engine only through two lines
of output: the ready line above, and `missing package NAME`, by which `streamwire.bootstrap` reports a missing package.
The supervisor does not depend on Spark.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from spark_streams import reports
from spark_streams.embedded.drivers import PREFIX, Process
from streamwire.machine import Machine

if TYPE_CHECKING:
    import redis


# -- the states of an engine ------------------------------------------------------------------------------------------


class State(Enum):
    NOT_STARTED = "not started"
    STARTING = "starting"  # the process runs and has not printed its address yet
    READY = "ready"  # the engine accepts clients
    STOPPING = "stopping"  # the engine was asked to stop
    KILLING = "killing"  # killed because it did not stop in time
    GIVING_UP = "giving up"  # killed because it was not ready in time
    ENDED = "ended"  # the process has ended, after it was ready or after a requested stop
    FAILED = "failed"  # the process has ended and was never ready


class Event(Enum):
    STARTED = "its process was started"
    NOT_RUNNABLE = "its command could not be run"
    ANNOUNCED = "it reported its address"
    ENGINE_ENDED = "its process ended"
    DRIVER_ENDED = "the driver's process ended"
    STOP_ASKED = "the supervisor was asked to end"
    START_EXPIRED = "it was not ready in time"
    STOP_EXPIRED = "it did not end in time"


S, E = State, Event

TABLE: dict[tuple[State, Event], State] = {
    (S.NOT_STARTED, E.STARTED): S.STARTING,
    (S.NOT_STARTED, E.NOT_RUNNABLE): S.FAILED,
    (S.STARTING, E.ANNOUNCED): S.READY,
    (S.STARTING, E.ENGINE_ENDED): S.FAILED,
    (S.STARTING, E.DRIVER_ENDED): S.STOPPING,
    (S.STARTING, E.STOP_ASKED): S.STOPPING,
    (S.STARTING, E.START_EXPIRED): S.GIVING_UP,
    (S.READY, E.ENGINE_ENDED): S.ENDED,
    (S.READY, E.DRIVER_ENDED): S.STOPPING,
    (S.READY, E.STOP_ASKED): S.STOPPING,
    (S.STOPPING, E.ENGINE_ENDED): S.ENDED,
    (S.STOPPING, E.STOP_EXPIRED): S.KILLING,
    (S.KILLING, E.ENGINE_ENDED): S.ENDED,
    (S.GIVING_UP, E.ENGINE_ENDED): S.FAILED,
    # While the engine is ending, a late announcement, the driver's end and stop requests change nothing.
    **{
        (leaving, event): leaving
        for leaving in (S.STOPPING, S.KILLING, S.GIVING_UP)
        for event in (E.ANNOUNCED, E.DRIVER_ENDED, E.STOP_ASKED)
    },
}

FINAL = frozenset({S.ENDED, S.FAILED})

#: Maximum seconds in a state, and the event after that time.
LIMITS: dict[State, tuple[float, Event]] = {
    S.STARTING: (30.0, E.START_EXPIRED),
    S.STOPPING: (5.0, E.STOP_EXPIRED),
}


class Host(Protocol):
    """Supplies the events of an engine, and carries out the machine's actions.

    In tests, the host replays a list of events.
    """

    def start(self) -> Event:
        """Start the engine. Returns STARTED or NOT_RUNNABLE."""

    def next_event(self, seconds: float | None) -> Event | None:
        """Return the next event; None if there is none within `seconds`. Waits indefinitely if `seconds` is None."""

    def entered(self, state: State) -> None:
        """Carry out the actions of the entered state, and record the state."""


def run(host: Host, clock: Callable[[], float]) -> State:
    """Run the machine until a final state, and return that state. `clock` returns monotonic seconds."""
    machine = Machine("the embedded engine", TABLE, State.NOT_STARTED)
    event: Event | None = host.start()
    since = clock()
    while True:
        state = machine.state
        if event is not None and machine.fire(event) is not state:
            state, since = machine.state, clock()
            host.entered(state)
        if state in FINAL:
            return state
        if state in LIMITS:
            seconds, expired = LIMITS[state]
            left = since + seconds - clock()
            event = host.next_event(left) if left > 0 else expired
        else:
            event = host.next_event(None)


# -- the record: one small file ---------------------------------------------------------------------------------------

_NAME = "state.json"


@dataclass(frozen=True)
class Record:
    """The state and the processes, with the URL of a ready engine or the reason why it failed."""

    state: State
    supervisor: Process
    engine: Process | None = None
    url: str = ""
    reason: str = ""
    missing: str = ""  # name of the missing package, if the engine failed because of it

    def usable(self) -> bool:
        """Return whether the engine accepts clients."""
        return self.state is State.READY and self.engine is not None and self.engine.runs()

    def write(self, directory: Path) -> None:
        """Replace the directory's record atomically: readers see either the old record or this one."""
        values = asdict(self) | {
            "state": self.state.value,
            "supervisor": str(self.supervisor),
            "engine": None if self.engine is None else str(self.engine),
        }
        draft = directory / (_NAME + ".new")
        draft.write_text(json.dumps(values))
        draft.replace(directory / _NAME)


def record_in(directory: Path) -> Record | None:
    """Return the directory's record; None if it does not exist."""
    try:
        values = json.loads((directory / _NAME).read_text())
    except FileNotFoundError:
        return None
    supervisor = Process.parse(values["supervisor"])
    assert supervisor is not None
    engine = None if values["engine"] is None else Process.parse(values["engine"])
    return Record(**values | {"state": State(values["state"]), "supervisor": supervisor, "engine": engine})


def remove_record(directory: Path) -> None:
    (directory / _NAME).unlink(missing_ok=True)


# -- the entries that an engine in memory discards --------------------------------------------------------------------

#: Environment variable; `off` disables the embedded engine's notices about where its data is kept and when it is lost.
NOTICES = "PYSTREAMS_EMBEDDED_NOTICES"

_SECONDS = 1.0  # time limit of the count; streams that were not counted by then are omitted
_PAGE = 200  # streams per round trip
_NAMED = 3  # number of streams named in the sentence


def notices() -> bool:
    """Return whether the embedded engine reports where it stores its data and what it discards."""
    return os.environ.get(NOTICES, "").lower() not in ("off", "false", "0")


@dataclass(frozen=True)
class Discard:
    """Lost entries of one stream.

    `unread`: entries that the group furthest behind has not read; all entries if there is no group or a lag is unknown.
    `pending`: pending entries of all groups.
    """

    stream: str
    unread: int
    pending: int

    def __str__(self) -> str:
        parts = [f"{self.unread:,} unread" if self.unread else "", f"{self.pending:,} pending" if self.pending else ""]
        return f"{self.stream} ({', '.join(filter(None, parts))})"


def sentence(url: str) -> str:
    """Return a sentence about the entries that the engine at this URL would discard now.

    Return an empty text if no such entries are found, or if the engine stores its data in files.
    """
    import redis  # noqa: PLC0415 - the supervisor starts faster without redis, and needs it only at its end

    found: list[Discard] = []
    try:
        with redis.Redis.from_url(url, socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS) as client:
            if not _keeps_data(client):
                found.extend(_discards(client, time.monotonic() + _SECONDS))
    except (redis.RedisError, OSError):
        pass  # the engine is ending or has ended
    if not found:
        return ""
    unread, pending = sum(each.unread for each in found), sum(each.pending for each in found)
    worst = sorted(found, key=lambda each: -each.unread - each.pending)
    named = ", ".join(map(str, worst[:_NAMED]))
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    kinds = " and ".join(
        f"{count:,} {kind}" for count, kind in ((unread, "unread"), (pending, "unacknowledged")) if count
    )
    return (
        f"The embedded engine kept its data in memory and ends with its driver. It discards {kinds} "
        f"entr{'y' if unread + pending == 1 else 'ies'} in {len(found):,} stream{'s' * (len(found) > 1)}: "
        f"{named}{more}. To keep them, set the option 'embedded.dir' or 'url'."
    )


def _keeps_data(client: redis.Redis) -> bool:
    config = client.config_get("appendonly", "save")
    return config.get("appendonly") == "yes" or bool(config.get("save"))


def _discards(client: redis.Redis, deadline: float) -> Iterator[Discard]:
    """Yield the streams with unread or pending entries, until the deadline."""
    cursor = -1
    while cursor != 0 and time.monotonic() < deadline:
        cursor, page = client.scan(max(cursor, 0), count=_PAGE, _type="stream")
        report_streams = (reports.STREAM.encode(), reports.MALFORMED_STREAM.encode())
        names = [name for name in page if isinstance(name, bytes) and name not in report_streams]
        questions = client.pipeline(transaction=False)
        for name in names:
            questions.xlen(name)
            questions.xinfo_groups(name)
        answers = questions.execute(raise_on_error=False)
        for name, length, groups in zip(names, answers[::2], answers[1::2], strict=True):
            if isinstance(length, int) and isinstance(groups, list):
                # Without a group, or if its lag is unknown, all entries count as unread.
                lags = [length if group["lag"] is None else int(group["lag"]) for group in groups] or [length]
                each = Discard(name.decode(errors="replace"), max(lags), sum(int(group["pending"]) for group in groups))
                if each.unread or each.pending:
                    yield each


# -- the supervisor ---------------------------------------------------------------------------------------------------

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
        if notices():
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
            remove_record(self._directory)
        else:
            self._record.write(self._directory)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _loss(self, state: State) -> str:
        """Return a text about the end of a ready engine and the lost data; empty if there is nothing to report."""
        if not notices():
            return ""
        if state is State.STOPPING:
            return sentence(self._record.url)
        ended = f"The embedded engine ended before its driver (status {self._child.returncode})."
        if ("--appendonly", "yes") in itertools.pairwise(self._command):
            return f"{ended} The next query starts it again with the data in its directory."
        return f"{ended} Entries that it kept in memory are lost; the next query starts an empty engine."

    def _reason(self, state: State) -> str:
        """Return the reason for a failure; empty if the engine has not failed."""
        if state is State.GIVING_UP:
            return f"it was not ready after {LIMITS[State.STARTING][0]:g} seconds"
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
        return 0 if run(host, time.monotonic) is State.ENDED else 1
    finally:
        host.close()
