"""Life of an embedded engine under its supervisor, with engines of a few lines of Python."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_streams.embedded import supervisor
from spark_streams.embedded.drivers import Process
from spark_streams.embedded.supervisor import Record
from tests import ROOT
from tests.suite.tools import needed
from tests.suite.waiting import DEADLINE, wait_for

SUPERVISOR = "import sys; from spark_streams.embedded import supervisor; sys.exit(supervisor.main(sys.argv[1:], 0.3))"
STAYS = "print('begun', flush=True)\nimport time\ntime.sleep(1000)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


class Case:
    """A supervisor with an engine, and a driver that can be ended."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / f"{supervisor.PREFIX}0" / "driver"
        self.directory.mkdir(parents=True)
        self.log = self.directory / "log"
        self.driver = subprocess.Popen([needed("cat")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def supervise(self, *engine: str) -> subprocess.Popen[bytes]:
        """Start the supervisor of an engine whose program is these lines."""
        words = [str(self.directory), str(Process.of(self.driver.pid))]
        with (self.directory / "lock").open("w") as lock, self.log.open("wb") as output:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.supervisor = subprocess.Popen(
                [sys.executable, "-c", SUPERVISOR, *words, str(lock.fileno()), sys.executable, "-S", "-c", *engine],
                stdout=output,
                pass_fds=[lock.fileno()],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        return self.supervisor

    def begun(self) -> Record:
        """Wait until the engine runs its program, and return the record."""
        wait_for(lambda: b"begun" in self.log.read_bytes(), "the engine")
        found = supervisor.record_in(self.directory)
        assert found is not None
        return found

    def end_driver(self) -> None:
        assert self.driver.stdin is not None
        self.driver.stdin.close()
        self.driver.wait()


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    made = Case(tmp_path)
    yield made
    watched = made.supervisor.poll() is None
    made.end_driver()
    made.supervisor.wait(DEADLINE)
    assert not (watched and made.directory.parent.exists()), "a driver that ends leaves nothing"


def test_the_lock_is_held_until_there_is_a_record(case: Case) -> None:
    """A process that gets the launcher's lock finds a running supervisor, even if the launcher has died."""
    case.supervise(STAYS)
    with (case.directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = supervisor.record_in(case.directory)
    assert found is not None
    assert found.supervisor.runs()


@pytest.mark.parametrize("engine", [STAYS, f"{DEAF}\n{STAYS}", f"import os; os.close(2)\n{STAYS}"])
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_engine_ends_with_its_driver_or_by_a_signal(case: Case, engine: str, number: signal.Signals | None) -> None:
    """The end of the driver, or a signal to the supervisor, ends the engine, also one that ignores the request. The
    record is removed; the directory remains if the driver runs.
    """
    running = case.supervise(engine)
    process = case.begun().engine
    if number is None:
        case.end_driver()
    else:
        running.send_signal(number)
    assert running.wait(DEADLINE) == 0
    assert not process.runs()
    assert supervisor.record_in(case.directory) is None
    assert case.directory.exists() == (number is not None)


def test_an_engine_that_ends_leaves_its_record_and_output(case: Case) -> None:
    """The supervisor ends with the engine's status. The log has the whole output, also of more than a pipe's size."""
    running = case.supervise("print('first')\nprint(100_000 * 'x', flush=True)\nraise SystemExit(3)")
    assert running.wait(DEADLINE) == 3
    assert supervisor.record_in(case.directory) is not None
    assert case.log.read_text() == f"first\n{100_000 * 'x'}\n"
