"""Reading as a consumer of a group: new entries, and entries whose reply was lost with a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pystreams.streams import tails
from pystreams.streams.paged_calls import ask
from pystreams.values.fields import Entry
from streamclient.connection import Connection
from streamclient.errors import BROKEN, PystreamsError, ResponseError

_COUNT = 100  # maximum number of entries per read
_WAIT_MS = 1000  # time for which a read waits for new entries


class Reader:
    """One consumer of one stream. `again`: whether to start with the consumer's pending entries."""

    def __init__(self, connection: Connection, stream: bytes, group: bytes, consumer: bytes, *, again: bool) -> None:
        self._connection = connection
        self._stream, self._group, self._consumer = stream, group, consumer
        self._last = b"0-0"  # ID of the last entry that `read` returned
        self._again = again  # whether pending entries may exist that `read` has not returned

    def read(self, *, most: int | None, wait: bool, lost: Callable[[str], None]) -> list[Entry]:
        """Return at most `most` entries. With `wait`, wait up to a second for entries, and indefinitely for an
        unreachable server.
        """
        count = _COUNT if most is None else min(_COUNT, most)
        if not wait:
            return self._once(count, wait=False)
        pages = tails.retry_forever(lambda: [(self._stream, entry) for entry in self._once(count, wait=True)], lost)
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
                self._again = True  # entries may be pending whose reply was lost: read these next
                raise
        if found:
            self._last = found[-1][1][0]
        return [entry for _, entry in found]

    def acknowledge(self, page: Sequence[Entry]) -> None:
        """Acknowledge entries."""
        ask(self._connection, "XACK", self._stream, self._group, *(entry_id for entry_id, _ in page))

    def leave(self) -> int:
        """Remove the consumer if it has no pending entries. Returns the number of pending entries; 0 after an error."""
        self._connection.close()  # old sockets may still receive the reply to an interrupted command
        try:
            counts = ask(self._connection, "XPENDING", self._stream, self._group)[3] or ()
            pending = sum(int(count) for name, count in counts if name == self._consumer)
            if not pending:
                ask(self._connection, "XGROUP", "DELCONSUMER", self._stream, self._group, self._consumer)
        except (PystreamsError, ResponseError, OSError):
            return 0
        return pending
