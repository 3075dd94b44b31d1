"""What is done to a query's group while Spark goes on: large batches are delivered, and acknowledged behind that.

Which rows a batch has does not depend on it, so neither its tasks nor the planning of the next batch wait. What does
need it waits: the next delivery, and a trigger that finds nothing new. One thing is done at a time, in the order in
which they were begun, in a thread with a connection of its own. Behind a failure nothing more is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from spark_streams.client.pool import borrow
from spark_streams.config.address import Address
from spark_streams.server.api import StreamServer
from spark_streams.server.open import open_server

_STOP_SECONDS = 2.0  # the longest that the end of a query waits for a page under way


Work = Callable[[StreamServer], Iterator[None]]
"""What is done with a server. It may be ended at every step of the iterator."""


class Background:
    """What is done in the background, to the streams of one address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._ended = threading.Event()

    @property
    def is_begun(self) -> bool:
        """Whether something was begun that nobody has waited for."""
        return self._thread is not None

    def begin(self, work: Work) -> None:
        """Do it in the background, behind what was begun before."""
        self._thread = threading.Thread(target=self._run, args=(work, self._thread), daemon=True)
        self._thread.start()

    def _run(self, work: Work, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        if self._failure is not None or self._ended.is_set():
            return
        try:
            with borrow(self._address) as connection:
                for _ in work(open_server(connection)):
                    if self._ended.is_set():
                        return
        except Exception as failure:  # noqa: BLE001 - it is raised where it is waited for
            self._failure = failure

    def wait(self) -> None:
        """Wait until all that was begun is done. Raises what made it fail, once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def give_up(self) -> None:
        """The query has ended: do no more, for another one may have the group next."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
