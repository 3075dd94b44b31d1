"""Background work while the tasks of a batch read: deliveries to a group.

The rows of a batch do not depend on this work, so the tasks need not wait for it. The batch's acknowledgement and the
next batch depend on it and wait for it to finish. One thing is done at a time, in a thread with its own connection. The
thread does not use the process's connection, because a replaced connection would look like a new server
to the query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.streams.stream_server import StreamServer, open_server
from streamclient.wire_errors import BROKEN

_STOP_SECONDS = 2.0  # maximum wait for a page in progress at the end of a query


class Background:
    """Runs one piece of work at a time in the background, on the server at an address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._ended = threading.Event()

    def start(self, work: Callable[[StreamServer], Iterator[None]]) -> None:
        """Wait for earlier work, and then do this work in the background. It can be stopped after each iteration."""
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
        """Wait for the work to finish. Raises the work's failure, but only once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def give_up(self) -> None:
        """Stop the work at the end of the query, because another query may use the group next."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
