"""Reading as a consumer of a group: new entries, and again those whose reply was lost with a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pystreams.streams import tails
from pystreams.streams.paged_calls import ask
from pystreams.values.fields import Entry
from streamclient.connection import Connection
from streamclient.errors import PystreamsError
from streamclient.wire_errors import BROKEN, ResponseError

_COUNT = 100
_WAIT_MS = 1000


class Reader:
    """One consumer of one stream. `again`: whether it first gets what is pending for it from before."""

    def __init__(self, connection: Connection, stream: bytes, group: bytes, consumer: bytes, *, again: bool) -> None:
        self._connection = connection
        self._stream, self._group, self._consumer = stream, group, consumer
        self._last = b"0-0"  # the last entry that was given out
        self._again = again  # whether entries may be pending that were not given out

    def read(self, *, most: int | None, wait: bool, lost: Callable[[str], None]) -> list[Entry]:
        """Return the next entries, at most `most`. With `wait` a second for them, and for ever for a server that is
        gone.
        """
        count = _COUNT if most is None else min(_COUNT, most)
        if not wait:
            return self._once(count, wait=False)
        pages = tails.persistently(lambda: [(self._stream, one) for one in self._once(count, wait=True)], lost)
        return [entry for _, entry in next(pages)]

    def _once(self, count: int, *, wait: bool) -> list[Entry]:
        head = ("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", count)
        if self._again:
            found = tails.listed(ask(self._connection, *head, "STREAMS", self._stream, self._last))
            if not found:
                self._again = False
                return self._once(count, wait=wait)
        else:
            block = ("BLOCK", _WAIT_MS) if wait else ()
            try:
                found = tails.listed(ask(self._connection, *head, *block, "STREAMS", self._stream, ">"))
            except (PystreamsError, *BROKEN):
                self._again = True  # the server may have delivered what never came
                raise
        if found:
            self._last = found[-1][1][0]
        return [entry for _, entry in found]

    def acknowledge(self, page: Sequence[Entry]) -> None:
        """Acknowledge entries."""
        ask(self._connection, "XACK", self._stream, self._group, *(entry_id for entry_id, _ in page))

    def leave(self) -> int:
        """Remove the consumer if nothing is pending for it. Returns how much is, as far as the server says."""
        self._connection.close()  # a reply may be due to a command that was interrupted: new sockets are needed
        try:
            counts = ask(self._connection, "XPENDING", self._stream, self._group)[3] or ()
            pending = sum(int(count) for name, count in counts if name == self._consumer)
            if not pending:
                ask(self._connection, "XGROUP", "DELCONSUMER", self._stream, self._group, self._consumer)
        except (PystreamsError, ResponseError, OSError):
            return 0
        return pending
