"""Background work while the tasks of a batch read: deliveries to a group, and the search for the next batch's end.

Which rows a batch has does not depend on them, so the tasks need not wait. What does need them waits for their end: the
batch's acknowledgement, and the next batch. Each kind does one thing at a time, in a thread with a connection of its
own, which is not the process's: should that become another one, the query would take the server for another one, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.streams.server import StreamServer, open_server
from streamclient.wire_errors import BROKEN

_STOP_SECONDS = 2.0  # the longest that the end of a query waits for a page under way


class Background:
    """One thing at a time, or nothing, that is done in the background on the server of an address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._ended = threading.Event()

    def begin(self, work: Callable[[StreamServer], Iterator[None]]) -> None:
        """Do it in the background, after what was begun before. It may be ended at every step of the iterator."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[StreamServer], Iterator[None]]) -> None:
        try:
            with closing(Connection(self._address)) as connection:
                try:
                    for _ in work(open_server(connection)):
                        if self._ended.is_set():
                            return
                except BROKEN as cause:
                    raise connection.unreachable(cause) from cause
        except Exception as failure:  # noqa: BLE001 - raised to the caller that waits
            self._failure = failure

    def wait(self) -> None:
        """Wait until what was begun is done. Raises what made it fail, once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def join(self) -> None:
        """Wait for the end of what was begun, from another thread than the one that begins it."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def give_up(self) -> None:
        """The query has ended: do no more, for another one may have the group next."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
