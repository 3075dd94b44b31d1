"""The sampler: a thread that looks at the server again and again, for all browsers together.

It takes at most a fifth of its time for looking, and sends at most 250 commands per second on average: looks that
take long or ask about many streams make the pauses longer. A server that is gone
is looked for every second; what was seen last stays, with the reason why there is nothing newer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from pystreams.dashboard.history.series import Curve, History
from pystreams.dashboard.sampling.server_sample import CountingConnection, Looks, numbers_of
from pystreams.dashboard.sampling.snapshot import EMPTY, Snapshot
from streamclient.config.address import Address
from streamclient.connection import BROKEN
from streamclient.errors import PystreamsError

INTERVAL = 2.0
_PAUSE_GONE = 1.0
_RETRY_MS = 500
_ANSWER_SECONDS = 10.0  # after which a server that hangs counts as gone
_PAUSE_SHARE = 4  # how many times longer than a look the pause after it is at least
_COMMANDS_PER_SECOND = 250
_JUDGED = 3  # looks of which the quickest counts: one may be slow by chance


@dataclass(frozen=True)
class State:
    """How the sampling is. `number` grows with every look and every failure; `problem` is None while all is well.

    `since`: this machine's time, in milliseconds, since when it has been so.
    """

    number: int
    snapshot: Snapshot
    problem: str | None
    since: int


class Sampler:
    """Looks at the server until `stop`. `state` is what was seen last, for any thread; `told` is called after each."""

    def __init__(self, address: Address, interval: float = INTERVAL, history: History | None = None) -> None:
        self._address = replace(address, retry_ms=_RETRY_MS, answer_seconds=_ANSWER_SECONDS)
        self._interval = interval
        self.told: Callable[[], None] = lambda: None
        self.state = State(0, EMPTY, "The server has not been asked yet.", _now())
        self._history = History() if history is None else history
        self._history_lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = self._changed = False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def hurry(self) -> None:
        """Look at once, and for new streams as well: something was changed."""
        self._changed = True
        self._wake.set()

    def curve(self, *key: Hashable) -> Curve:
        """The last hour of one number; see `numbers_of` for the keys."""
        with self._history_lock:
            return self._history.of(key)

    def _run(self) -> None:
        try:
            self._look_on()
        finally:
            if not self._ended:  # a fault of this program: the thread's end is logged by Python
                self._became(
                    self.state.snapshot, "The sampler has ended by a fault: see the log, start the dashboard anew."
                )

    def _look_on(self) -> None:
        connection: CountingConnection | None = None
        looks, took = Looks(), deque[float](maxlen=_JUDGED)
        while not self._ended:
            pause = self._interval
            self._wake.clear()
            try:
                if connection is None:
                    connection = CountingConnection(self._address)
                if self._changed:
                    self._changed = False
                    looks.forget_names()
                snapshot = looks.look(connection)
                with self._history_lock:
                    self._history.add(snapshot.at, numbers_of(snapshot))
                self._became(snapshot, None)
                took.append(snapshot.took)
                pause = max(pause, pause_after(min(took), snapshot.sent))
            except (PystreamsError, *BROKEN) as failure:
                if connection is not None:
                    connection.close()
                    connection = None
                self._became(self.state.snapshot, str(failure))
                pause = _PAUSE_GONE
                looks = Looks()
            self._wake.wait(pause)
        if connection is not None:
            connection.close()

    def _became(self, snapshot: Snapshot, problem: str | None) -> None:
        before = self.state
        since = before.since if (before.problem is None) == (problem is None) and before.number else _now()
        self.state = State(before.number + 1, snapshot, problem, since)
        self.told()


def pause_after(took: float, sent: int) -> float:
    """Return the shortest pause, in seconds, after a look that took so many seconds and sent so many commands."""
    return max(took * _PAUSE_SHARE, sent / _COMMANDS_PER_SECOND)


def _now() -> int:
    return round(time.time() * 1000)
