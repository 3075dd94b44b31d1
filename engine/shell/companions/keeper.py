"""Keeps companions alive: starts their processes, hands them their settings, logs what they say, starts them again.

A companion has a thread that waits for its process, so the event loop never does. The process is started without a copy
of the engine's memory (`subprocess` uses vfork where it can). Its settings, the password among them, go through its
standard input: they stand neither in its arguments nor in its environment. The engine holds the other end of that pipe
for as long as it lives. When it is gone, killed or not, the pipe ends, and so does the companion.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from engine.settings.config import Config
from engine.shell.companions.states import Companion, CompanionEvent, companion
from engine.shell.companions.table import ROWS, Row
from engine.shell.observation.reporting import LOG
from streamwire import bootstrap

_FIRST_REST, _LONGEST_REST = 1.0, 60.0
_LINE_BYTES = 1000
_LINES = 100  # of one run that go to the log
_STOP_SECONDS = 2.0


def program(row: Row, config: Config) -> list[str]:
    """The command line of a companion: `pystreams` from where the engine is installed."""
    return [*bootstrap.program("pystreams.__main__"), *row.arguments(config)]


class Keeper:
    """One companion. `options`: the connection options that lead to this engine. `command`: what is started."""

    def __init__(
        self,
        row: Row,
        config: Config,
        options: Callable[[], dict[str, str]],
        command: Callable[[Row, Config], list[str]] = program,
    ) -> None:
        self._row = row
        self._config = config
        self._options = options
        self._command = command
        self._machine = companion()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Do what the directives say, now and whenever they change."""
        for name in self._row.directives:
            self._config.on_change(name, self.follow)
        if self._config.integer(self._row.port):
            self.follow()

    def follow(self) -> None:
        """Run with the settings of now, or not at all."""
        wanted = bool(self._config.integer(self._row.port))
        with self._lock:
            before = self._machine.state
            self._machine.fire(CompanionEvent.WANTED if wanted else CompanionEvent.UNWANTED)
            self._changed.set()
            if before is Companion.OFF and wanted:
                name = f"companion-{self._row.name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            else:
                self._end(self._process)

    def ask_to_end(self) -> None:
        """End it for good. `wait` waits for that."""
        with self._lock:
            self._machine.fire(CompanionEvent.UNWANTED)
            self._changed.set()
            self._end(self._process)

    def wait(self) -> None:
        """Wait a little until its process is gone, and kill it otherwise."""
        thread = self._thread
        if thread is None:
            return
        thread.join(_STOP_SECONDS)
        if thread.is_alive() and self._process is not None:
            self._process.kill()
            thread.join(_STOP_SECONDS)

    @staticmethod
    def _end(process: subprocess.Popen[bytes] | None) -> None:
        if process is not None:
            with contextlib.suppress(OSError):
                process.terminate()

    def _run(self) -> None:
        """The thread: one process after the other, until it is told to end."""
        rest = _FIRST_REST
        while True:
            begin = time.monotonic()
            said = self._one_run()
            with self._lock:
                self._process = None
                self._changed.clear()
                state = self._machine.fire(CompanionEvent.ENDED)
            if state is Companion.RESTING:
                rest = _FIRST_REST if time.monotonic() - begin > _LONGEST_REST else rest
                LOG.warning("%s %s; it is started again in %g s", self._row.name, said, rest)
                self._changed.wait(rest)
                rest = min(2 * rest, _LONGEST_REST)
                with self._lock:
                    resting = self._machine.state is Companion.RESTING
                    state = self._machine.fire(CompanionEvent.RESTED if resting else CompanionEvent.ENDED)
            if state is Companion.OFF:
                return

    def _one_run(self) -> str:
        """Start the process and wait for its end; how it ended."""
        try:
            with self._lock:
                if self._machine.state is not Companion.RUNNING:
                    return "was not started"
                process = self._process = subprocess.Popen(
                    self._command(self._row, self._config),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
        except OSError as error:
            return f"could not be started: {error.strerror}"
        LOG.info("%s started, pid %d", self._row.name, process.pid)
        assert process.stdin is not None
        assert process.stderr is not None
        settings = {**self._options(), **self._row.login(self._config)}
        # The end of this pipe stays open until the process has ended, or this one has.
        with process.stdin as pipe, process.stderr as said:
            with contextlib.suppress(OSError):
                pipe.write(json.dumps(settings).encode() + b"\n")
                pipe.flush()
            for number, line in enumerate(iter(lambda: said.readline(_LINE_BYTES), b"")):
                if number < _LINES:
                    text = line.decode("utf-8", "backslashreplace").rstrip()
                    LOG.info("%s: %s", self._row.name, "".join(each for each in text if each.isprintable()))
            status = process.wait()
            with contextlib.suppress(OSError):
                pipe.close()
        return f"ended with status {status}"


class Keepers:
    """All companions of the engine. `options`: the connection options that lead to it."""

    def __init__(self, config: Config, options: Callable[[], dict[str, str]], rows: Sequence[Row] = ROWS) -> None:
        self._keepers = [Keeper(row, config, options) for row in rows]

    def start(self) -> None:
        """Start those that are wanted, and follow the directives."""
        for keeper in self._keepers:
            keeper.start()

    def ask_to_end(self) -> None:
        """Tell all to end."""
        for keeper in self._keepers:
            keeper.ask_to_end()

    def wait(self) -> None:
        """Wait until they have ended, for a few seconds at most."""
        for keeper in self._keepers:
            keeper.wait()
