"""Supervision of companions: starting their processes, passing settings, logging output, restarting.

Each companion has a thread that starts its process and waits for it, instead of the event loop. The process starts
without a copy of the engine's memory (`subprocess` uses vfork if possible). Its connection options, including the
password, go through its standard input, and appear neither in its arguments nor in its environment. The engine keeps
its end of that pipe open. If the engine ends, even if it is killed, the pipe closes, and the companion exits.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from engine.settings.config import Config
from engine.shell.companions.process_states import Companion, CompanionEvent, companion
from engine.shell.companions.table import ROWS, Row
from engine.shell.observation.log_lines import LOG
from streamwire import bootstrap

#: Seconds before a process that ended by itself is restarted. The pause doubles with each restart. It is reset to this
#: value after a process has run for longer than `_LONGEST_REST`.
_FIRST_REST = 1.0
#: Maximum pause in seconds before a restart.
_LONGEST_REST = 60.0
#: Maximum length in bytes of a logged line; the rest of a longer line is logged as another line.
_LINE_BYTES = 1000
_LINES = 100  # maximum number of logged lines per process
_STOP_SECONDS = 2.0


def program(row: Row, config: Config) -> list[str]:
    """Return the command line of a companion: `pystreams` from the engine's installation."""
    return [*bootstrap.program("pystreams.__main__"), *row.arguments(config)]


class Supervisor:
    """Supervisor of one companion. `options` returns the connection options for this engine. `command` returns the
    companion's command line.
    """

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
        """Apply the directives, now and whenever they change."""
        for name in self._row.directives:
            self._config.on_change(name, self.follow)
        if self._config.integer(self._row.port):
            self.follow()

    def follow(self) -> None:
        """Start, restart or stop the process as the current directives require."""
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

    def request_stop(self) -> None:
        """Stop the companion permanently. Call `wait` to wait for its end."""
        with self._lock:
            self._machine.fire(CompanionEvent.UNWANTED)
            self._changed.set()
            self._end(self._process)

    def wait(self) -> None:
        """Wait `_STOP_SECONDS` for the process to end. If it is still running then, kill it."""
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
        """Thread: run one process after another until asked to end."""
        rest = _FIRST_REST
        while True:
            begin = time.monotonic()
            reason = self._run_process()
            with self._lock:
                self._process = None
                self._changed.clear()
                state = self._machine.fire(CompanionEvent.ENDED)
            if state is Companion.RESTING:
                rest = _FIRST_REST if time.monotonic() - begin > _LONGEST_REST else rest
                LOG.warning("%s %s; restarting in %g s", self._row.name, reason, rest)
                self._changed.wait(rest)
                rest = min(2 * rest, _LONGEST_REST)
                with self._lock:
                    resting = self._machine.state is Companion.RESTING
                    state = self._machine.fire(CompanionEvent.RESTED if resting else CompanionEvent.ENDED)
            if state is Companion.OFF:
                return

    def _run_process(self) -> str:
        """Start the process and wait for its end; return the reason for its end, as words for a log line."""
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
        # This end of the pipe stays open until the companion or the engine has ended.
        with process.stdin as pipe, process.stderr as errors:
            with contextlib.suppress(OSError):
                pipe.write(json.dumps(settings).encode() + b"\n")
                pipe.flush()
            for number, line in enumerate(iter(lambda: errors.readline(_LINE_BYTES), b"")):
                if number < _LINES:
                    text = line.decode("utf-8", "backslashreplace").rstrip()
                    LOG.info("%s: %s", self._row.name, "".join(each for each in text if each.isprintable()))
            status = process.wait()
            with contextlib.suppress(OSError):
                pipe.close()
        return f"ended with status {status}"


class Supervisors:
    """Supervisors of all companions. `options` returns the connection options for this engine."""

    def __init__(self, config: Config, options: Callable[[], dict[str, str]], rows: Sequence[Row] = ROWS) -> None:
        self._supervisors = [Supervisor(row, config, options) for row in rows]

    def start(self) -> None:
        """Start the enabled companions, and apply later changes of the directives."""
        for supervisor in self._supervisors:
            supervisor.start()

    def request_stop(self) -> None:
        """Ask all companions to end."""
        for supervisor in self._supervisors:
            supervisor.request_stop()

    def wait(self) -> None:
        """Wait a short time for each companion to end, and kill it if it is still running then."""
        for supervisor in self._supervisors:
            supervisor.wait()
