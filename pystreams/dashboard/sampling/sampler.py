"""The sampler: a thread that samples the server periodically for all browsers.

Sampling takes at most a fifth of the thread's time, with at most 250 commands per second on average. So the pause is
longer after a sample that was slow or sent many commands. An unreachable server is retried every second. Meanwhile the
last sample stays available, with the reason for the failure.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from pystreams.dashboard.sampling.series import Curve, History
from pystreams.dashboard.sampling.server_sample import ServerSamples, numbers_of
from pystreams.dashboard.sampling.snapshot import EMPTY, Snapshot
from streamclient.config.address import Address
from streamclient.connection import BROKEN, Connection
from streamclient.errors import PystreamsError

INTERVAL = 2.0  # default time between two samples, in seconds
_PAUSE_UNREACHABLE = 1.0  # pause after a failure, in seconds
_RETRY_MS = 500  # time for which connecting is tried
_ANSWER_SECONDS = 2.0  # timeout of a reply, after which the server counts as unreachable
_PAUSE_SHARE = 4  # minimum ratio of a pause to the duration of a sample
_COMMANDS_PER_SECOND = 250  # maximum average over a sample and its pause
_JUDGED = 3  # number of last samples; the fastest determines the pause, since any sample may be slow by chance


@dataclass(frozen=True)
class State:
    """State of the sampling.

    `number` grows with every sample and every failure; `problem` is None after a successful sample. `answered`: start
    time of the last complete sample, or of the sampler before the first one, in seconds of the monotonic clock.
    """

    number: int
    snapshot: Snapshot
    problem: str | None
    answered: float

    @property
    def age_ms(self) -> int:
        """Milliseconds since the last complete sample began; before that, since the sampler was created."""
        return round((time.monotonic() - self.answered) * 1000)


class Sampler:
    """Samples the server until `stop`.

    `state`: the last state, which any thread may read.
    `also_sent`: functions that return the numbers of commands that this process has sent on other connections.
    """

    def __init__(
        self,
        address: Address,
        interval: float = INTERVAL,
        history: History | None = None,
        also_sent: Sequence[Callable[[], int]] = (),
    ) -> None:
        self._address = replace(address, retry_ms=_RETRY_MS, answer_seconds=_ANSWER_SECONDS)
        self._interval = interval
        self.state = State(0, EMPTY, "The server has not been sampled yet.", time.monotonic())
        self.also_sent = list(also_sent)
        self._history = History() if history is None else history
        self._history_lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = self._changed = False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def hurry(self) -> None:
        """Take a sample immediately, including a search for new streams. The dashboard calls this after a change."""
        self._changed = True
        self._wake.set()

    def curve(self, *key: Hashable) -> Curve:
        """Return the curve of one number over the last hour. `numbers_of` defines the keys."""
        with self._history_lock:
            return self._history.of(key)

    def _run(self) -> None:
        try:
            self._sample_until_end()
        finally:
            if not self._ended:  # a bug; Python logs the exception that ends the thread
                self._became(self.state.snapshot, "The sampler has failed. See the log, and restart the dashboard.")

    def _sample_until_end(self) -> None:
        connection: Connection | None = None
        samples, took = ServerSamples(self._sent), deque[float](maxlen=_JUDGED)
        while not self._ended:
            pause = self._interval
            self._wake.clear()
            try:
                if connection is None:
                    connection = Connection(self._address)
                if self._changed:
                    self._changed = False
                    samples.forget_names()
                began = time.monotonic()
                snapshot = samples.sample(connection)
                with self._history_lock:
                    self._history.add(snapshot.at, numbers_of(snapshot))
                self._became(snapshot, None, began)
                took.append(snapshot.took)
                pause = max(pause, pause_after(min(took), snapshot.sent))
            except (PystreamsError, *BROKEN) as failure:
                if connection is not None:
                    connection.close()
                    connection = None
                self._became(self.state.snapshot, str(failure))
                pause = _PAUSE_UNREACHABLE
                samples = ServerSamples(self._sent)
            self._wake.wait(pause)
        if connection is not None:
            connection.close()

    def _sent(self) -> int:
        return sum(sent() for sent in self.also_sent)

    def _became(self, snapshot: Snapshot, problem: str | None, answered: float | None = None) -> None:
        before = self.state
        self.state = State(before.number + 1, snapshot, problem, before.answered if answered is None else answered)


def pause_after(took: float, sent: int) -> float:
    """Return the minimum pause, in seconds, after a sample that took `took` seconds and sent `sent` commands."""
    return max(took * _PAUSE_SHARE, sent / _COMMANDS_PER_SECOND)
