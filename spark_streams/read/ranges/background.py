"""Deliveries to a group that go on while the tasks of their batch read.

Which rows a batch has does not depend on them, so the tasks need not wait. What does need them waits for their end: the
batch's acknowledgement, and the next batch. There is one at a time, in a thread with a connection of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from spark_streams.client.pool import borrow
from spark_streams.config.address import Address
from spark_streams.server.api import StreamServer
from spark_streams.server.open import open_server

_STOP_SECONDS = 2.0  # the longest that the end of a query waits for a page under way


class Background:
    """What is delivered in the background, to the streams of one address: nothing, or one batch."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._ended = threading.Event()

    def begin(self, deliver: Callable[[StreamServer], Iterator[None]]) -> None:
        """Deliver in the background, after what was begun before. It may be ended at every step of the iterator."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(deliver,), daemon=True)
        self._thread.start()

    def _run(self, deliver: Callable[[StreamServer], Iterator[None]]) -> None:
        try:
            with borrow(self._address) as connection:
                for _ in deliver(open_server(connection)):
                    if self._ended.is_set():
                        return
        except Exception as failure:  # noqa: BLE001 - it is raised where it is waited for
            self._failure = failure

    def wait(self) -> None:
        """Wait until what was begun is delivered. Raises what made it fail, once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def give_up(self) -> None:
        """The query has ended: deliver no more, for another one may have the group next."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
