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
from pystreams.dashboard.history.store import STEP_MS, Store
from pystreams.dashboard.sampling.server_sample import CountingConnection, Looks, numbers_of
from pystreams.dashboard.sampling.snapshot import EMPTY, Snapshot
from streamclient.config.address import Address
from streamclient.connection import BROKEN
from streamclient.errors import PystreamsError

INTERVAL = 2.0
HOUR_MS = 3_600_000
_FINEST_OF_DAY = 720  # points of a curve that is longer than an hour
_PAUSE_GONE = 1.0
_RETRY_MS = 500
_ANSWER_SECONDS = 10.0  # after which a server that hangs counts as gone
_PAUSE_SHARE = 4  # how many times longer than a look the pause after it is at least
_COMMANDS_PER_SECOND = 250
_JUDGED = 3  # number of looks whose quickest counts: one may be slow by chance


@dataclass(frozen=True)
class State:
    """How the sampling is. `number` grows with every look and every failure; `problem` is None while all is well.

    `since`: this machine's time of the last change between the two, in milliseconds.
    """

    number: int
    snapshot: Snapshot
    problem: str | None
    since: int


class Sampler:
    """Looks at the server until `stop`. `state` is what was seen last, for any thread; `told` is called after each."""

    def __init__(
        self,
        address: Address,
        interval: float = INTERVAL,
        history: History | None = None,
        store: Store | None = None,
    ) -> None:
        self._address = replace(address, retry_ms=_RETRY_MS, answer_seconds=_ANSWER_SECONDS)
        self._interval = interval
        self.told: Callable[[], None] = lambda: None
        self.state = State(0, EMPTY, "The server has not been asked yet.", _now())
        self._history = History() if history is None else history
        self._history_lock = threading.Lock()
        self._store = store
        self._wake = threading.Event()
        self._ended = self._changed = False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Start to sample."""
        if self._store is not None and not self._store.start():
            self._store = None
        self._thread.start()

    def stop(self) -> None:
        """Stop to sample, and write the history that is not on the disk yet."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2.0)
        if self._store is not None:
            self._store.stop()

    @property
    def span_ms(self) -> int:
        """How long the history is kept, in milliseconds."""
        return HOUR_MS if self._store is None else max(HOUR_MS, self._store.span_ms)

    def hurry(self) -> None:
        """Look at once, and for new streams as well: something was changed."""
        self._changed = True
        self._wake.set()

    def curve(self, *key: Hashable, span_ms: int = HOUR_MS) -> Curve:
        """Return the last hour of one number, or a longer period; see `numbers_of` for the keys.

        Points that are older than the memory, and those of longer periods, are means over minutes from the disk.
        """
        with self._history_lock:
            recent = self._history.of(key)
        if self._store is None:
            return recent
        end = recent.at[-1] if recent.at else _now()
        first = recent.at[0] if recent.at else end + 1
        stored = self._store.curve(key, end - span_ms, first if span_ms <= HOUR_MS else end + 1)
        last = stored.at[-1] + STEP_MS if span_ms > HOUR_MS and stored.at else 0
        newer = [at for at, time in enumerate(recent.at) if time >= last]
        at = [*stored.at, *(recent.at[each] for each in newer)]
        values = [*stored.values, *(recent.values[each] for each in newer)]
        step = -(-len(at) // _FINEST_OF_DAY) if span_ms > HOUR_MS else 1
        start = (len(at) - 1) % step if at else 0
        return Curve(at[start::step], values[start::step])

    def trend(self, *key: Hashable) -> Curve:
        """Return the last hour of one number as far as it is in memory, for a list of many."""
        with self._history_lock:
            return self._history.of(key)

    def _run(self) -> None:
        try:
            self._look_on()
        finally:
            if not self._ended:  # a fault of this program: the thread's end is logged by Python
                self._became(self.state.snapshot, "The sampler has failed. See the log, and restart the dashboard.")

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
                numbers = numbers_of(snapshot)
                with self._history_lock:
                    self._history.add(snapshot.at, numbers)
                if self._store is not None:
                    self._store.add(snapshot.at, numbers)
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
