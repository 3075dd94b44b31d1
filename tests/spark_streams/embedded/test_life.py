"""Life cycle of the embedded engine: every transition of its state machine, with scripted events and with processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_streams.embedded import launcher, supervisor
from spark_streams.embedded.drivers import Process
from spark_streams.embedded.supervisor import FINAL, TABLE, Event, Record, State
from streamwire.machine import IllegalTransitionError
from tests import ROOT
from tests.suite.machines import RecordingTable
from tests.suite.tools import needed
from tests.suite.waiting import DEADLINE, wait_for

E, S = Event, State


class Script:
    """A host with prepared events. The clock advances only by the numbers among them, in seconds."""

    def __init__(self, first: Event, *events: Event | float) -> None:
        self.first = first
        self.events = list(events)
        self.entered_states: list[State] = []
        self.now = 0.0

    def start(self) -> Event:
        return self.first

    def next_event(self, seconds: float | None) -> Event | None:
        event = self.events.pop(0)
        if isinstance(event, Event):
            return event
        passed = event if seconds is None else min(event, seconds)
        self.now += passed
        if event > passed:
            self.events.insert(0, event - passed)
        return None

    def entered(self, state: State) -> None:
        self.entered_states.append(state)

    def run(self) -> State:
        return supervisor.run(self, lambda: self.now)


NO_NEWS = (E.ANNOUNCED, E.DRIVER_ENDED, E.STOP_ASKED)
LIVES: list[tuple[list[Event | float], list[State]]] = [
    ([E.NOT_RUNNABLE], [S.FAILED]),
    ([E.STARTED, E.ENGINE_ENDED], [S.STARTING, S.FAILED]),
    ([E.STARTED, E.ANNOUNCED, E.ENGINE_ENDED], [S.STARTING, S.READY, S.ENDED]),
    ([E.STARTED, 29.0, E.ANNOUNCED, 1e9, E.DRIVER_ENDED, E.ENGINE_ENDED], [S.STARTING, S.READY, S.STOPPING, S.ENDED]),
    ([E.STARTED, E.ANNOUNCED, E.STOP_ASKED, 4.0, E.ENGINE_ENDED], [S.STARTING, S.READY, S.STOPPING, S.ENDED]),
    ([E.STARTED, E.DRIVER_ENDED, E.ENGINE_ENDED], [S.STARTING, S.STOPPING, S.ENDED]),
    ([E.STARTED, E.STOP_ASKED, E.ENGINE_ENDED], [S.STARTING, S.STOPPING, S.ENDED]),
    (
        [E.STARTED, E.ANNOUNCED, E.DRIVER_ENDED, 5.0, 1e9, E.ENGINE_ENDED],
        [S.STARTING, S.READY, S.STOPPING, S.KILLING, S.ENDED],
    ),
    ([E.STARTED, 30.0, 1e9, E.ENGINE_ENDED], [S.STARTING, S.GIVING_UP, S.FAILED]),
    # Events without an effect do not extend the wait.
    (
        [E.STARTED, E.STOP_ASKED, 4.0, *NO_NEWS, 1.0, *NO_NEWS, E.ENGINE_ENDED],
        [S.STARTING, S.STOPPING, S.KILLING, S.ENDED],
    ),
    (
        [E.STARTED, 30.0, *NO_NEWS, E.ENGINE_ENDED],
        [S.STARTING, S.GIVING_UP, S.FAILED],
    ),
]


@pytest.mark.parametrize(("events", "states"), LIVES)
def test_a_life_goes_through_these_states(events: list[Event | float], states: list[State]) -> None:
    """A sequence of events and pauses leads through the given states."""
    first, *others = events
    assert isinstance(first, Event)
    script = Script(first, *others)
    assert script.run() is states[-1]
    assert script.entered_states == states
    assert script.events == []


def test_the_sequences_cover_every_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = RecordingTable(TABLE)
    monkeypatch.setattr(supervisor, "TABLE", recording)
    for (first, *others), _ in LIVES:
        assert isinstance(first, Event)
        Script(first, *others).run()
    assert recording.walked == TABLE.keys()


def test_every_life_ends_with_its_process() -> None:
    """In every state the end of the process leads to a final state, and final states have no transitions."""
    for state in set(State) - FINAL - {S.NOT_STARTED}:
        assert TABLE[state, E.ENGINE_ENDED] in FINAL
    assert not any(state in FINAL for state, _ in TABLE)


def test_an_event_without_a_transition_is_an_error() -> None:
    """An event without a transition from the current state is an error."""
    with pytest.raises(IllegalTransitionError):
        Script(E.STARTED, E.ANNOUNCED, E.ANNOUNCED).run()


# Real processes, with short limits.

SUPERVISOR = """
import sys
from spark_streams.embedded import supervisor
seconds = {supervisor.State.STARTING: float(sys.argv.pop(1)), supervisor.State.STOPPING: 0.3}
supervisor.LIMITS = {state: (seconds[state], event) for state, (_, event) in supervisor.LIMITS.items()}
sys.exit(supervisor.main(sys.argv[1:]))
"""
READY = "print('ready on 127.0.0.1:7 pid 1', flush=True)"
STAYS = "import sys, time\ntime.sleep(1000)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


class Case:
    """A supervisor with an engine of a few lines of Python, and a driver that can be ended."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / f"{supervisor.PREFIX}0" / "driver"
        self.directory.mkdir(parents=True)
        self.log = directory / "log"
        self.driver = subprocess.Popen([needed("cat")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.start_seconds = DEADLINE

    def supervise(self, *engine: str) -> subprocess.Popen[bytes]:
        """Start the supervisor of an engine whose program is these lines."""
        return self.supervise_command(sys.executable, "-S", "-c", "\n".join(engine))

    def supervise_command(self, *command: str) -> subprocess.Popen[bytes]:
        words = [str(self.directory), str(Process.of(self.driver.pid))]
        with (self.directory / "lock").open("w") as lock, self.log.open("wb") as output:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.supervisor = subprocess.Popen(
                [sys.executable, "-c", SUPERVISOR, str(self.start_seconds), *words, str(lock.fileno()), *command],
                stdout=output,
                pass_fds=[lock.fileno()],
                env={**os.environ, "PYTHONPATH": str(ROOT), supervisor.NOTICES: "on"},
            )
        return self.supervisor

    def wait_for(self, state: State) -> Record:
        """Wait until the record has this state, and return the record."""

        def found() -> Record | None:
            now = supervisor.record_in(self.directory)
            return now if now is not None and now.state is state else None

        made = wait_for(found, f"the state {state}")
        assert made is not None
        return made

    def end_driver(self) -> None:
        assert self.driver.stdin is not None
        self.driver.stdin.close()
        self.driver.wait()

    def close(self) -> None:
        assert self.supervisor is not None
        watched = self.supervisor.poll() is None
        self.end_driver()
        self.supervisor.wait(DEADLINE)
        assert not (watched and self.directory.parent.exists()), "a driver that ends leaves nothing"


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    made = Case(tmp_path)
    yield made
    made.close()


def test_the_lock_is_held_until_there_is_a_record(case: Case) -> None:
    """A process that gets the launcher's lock finds a running supervisor, even if the launcher has died."""
    case.supervise(STAYS)
    with (case.directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = supervisor.record_in(case.directory)
    assert found is not None
    assert found.supervisor.runs()


def test_an_address_with_colons_is_put_in_brackets(case: Case) -> None:
    case.supervise("print('a line before')", "print('ready on ::1:7 pid 1', flush=True)", STAYS)
    ready = case.wait_for(S.READY)
    assert ready.url == "redis://[::1]:7"
    assert ready.usable()


def test_the_path_of_a_socket_is_quoted(case: Case) -> None:
    case.supervise("print('ready on unix:/a b/%s pid 1', flush=True)", STAYS)
    assert case.wait_for(S.READY).url == "unix:///a%20b/%25s"


def test_an_engine_ends_if_its_driver_ends_during_the_start(case: Case) -> None:
    running = case.supervise(STAYS)
    engine = case.wait_for(S.STARTING).engine
    assert engine is not None
    case.end_driver()
    assert running.wait(DEADLINE) == 0
    assert not engine.runs()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_supervisor_stops_its_engine(case: Case, number: signal.Signals) -> None:
    """A supervisor that receives a signal stops its engine and removes the record; the directory remains."""
    running = case.supervise(READY, STAYS)
    engine = case.wait_for(S.READY).engine
    assert engine is not None
    running.send_signal(number)
    assert running.wait(DEADLINE) == 0
    assert not engine.runs()
    assert supervisor.record_in(case.directory) is None
    assert case.directory.exists()


def test_an_engine_that_does_not_end_is_killed(case: Case) -> None:
    running = case.supervise(DEAF, READY, STAYS)
    engine = case.wait_for(S.READY).engine
    assert engine is not None
    running.terminate()
    assert running.wait(DEADLINE) == 0
    assert not engine.runs()


def test_an_engine_that_closes_its_output_is_still_watched(case: Case) -> None:
    running = case.supervise(READY, "import os; os.close(1)", STAYS)
    case.wait_for(S.READY)
    case.end_driver()
    assert running.wait(DEADLINE) == 0


@pytest.mark.parametrize(
    ("lines", "reason", "missing"),
    [
        ([STAYS], "it was not ready after 0.3 seconds", ""),
        ([DEAF, STAYS], "it was not ready after 0.3 seconds", ""),
        (["raise SystemExit(3)"], "it ended with status 3", ""),
        (["print('missing package nonesuch')", "raise SystemExit(1)"], "it ended with status 1", "nonesuch"),
    ],
)
def test_the_reason_is_recorded_if_the_engine_is_never_ready(
    case: Case, lines: list[str], reason: str, missing: str
) -> None:
    case.start_seconds = 0.3 if STAYS in lines else DEADLINE
    running = case.supervise(*lines)
    assert running.wait(DEADLINE) == 1
    failed = case.wait_for(S.FAILED)
    assert (failed.reason, failed.missing) == (reason, missing)
    assert not failed.usable()


def test_the_reason_is_recorded_if_the_command_cannot_run(case: Case) -> None:
    running = case.supervise_command("/nonesuch/engine", "--port", "0")
    assert running.wait(DEADLINE) == 1
    assert case.wait_for(S.FAILED).reason == "/nonesuch/engine: No such file or directory"


def test_the_output_of_the_engine_is_in_the_log(case: Case) -> None:
    """The log contains the engine's whole output, even if it exceeds the capacity of a pipe."""
    running = case.supervise("print('first')", READY, "print(100_000 * 'x', flush=True)")
    assert running.wait(DEADLINE) == 0
    printed, _, notice = case.log.read_text().rpartition("pystreams: ")
    assert printed == f"first\nready on 127.0.0.1:7 pid 1\n{100_000 * 'x'}\n"
    assert notice.startswith("The embedded engine ended before its driver (status 0).")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which acts as a full disk")
def test_a_log_that_cannot_be_written_does_not_end_the_engine(case: Case) -> None:
    case.log = Path("/dev/full")
    case.supervise("print('first')", READY, "print('more', flush=True)", STAYS)
    assert case.wait_for(S.READY).usable()


def test_a_request_waits_for_a_stopping_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request waits until a stopping engine has ended, then starts the next one."""
    me = Process.of(os.getpid())
    with subprocess.Popen([needed("cat")], stdin=subprocess.PIPE) as other:
        Record(S.STOPPING, Process.of(other.pid), me, "redis://127.0.0.1:1").write(tmp_path)

        def pause(_seconds: float) -> None:
            assert other.stdin is not None
            other.stdin.close()
            other.wait()

        def start(directory: Path, *_: object) -> subprocess.Popen[bytes]:
            assert other.poll() is not None
            Record(S.READY, me, me, "redis://127.0.0.1:2").write(directory)
            running = subprocess.Popen([sys.executable, "-c", ""])
            running.wait()
            return running

        monkeypatch.setattr("spark_streams.embedded.launcher.time.sleep", pause)
        monkeypatch.setattr(launcher, "_start", start)
        with (tmp_path / "lock").open("w") as lock:
            assert launcher._ready(tmp_path, me, lock.fileno(), [])[0].url == "redis://127.0.0.1:2"
