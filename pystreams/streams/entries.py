"""Entries: pages of a bounded size, the ID that a position denotes in a stream, and new entries as they arrive.

While the caller iterates over new entries, a broken connection is opened again, and reading continues after the last
entry. `Reader` reads as a consumer of a group, including entries whose reply was lost with a connection.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pystreams.streams.inventory import Stream
from pystreams.streams.paged_calls import ask, ask_all
from pystreams.values.fields import Entry
from pystreams.values.times import Position
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError, ResponseError
from streamclient.refusals import Refusal, refusal_of
from streamclient.streams.page_size import PageSize
from streamwire.slots import slot_of
from streamwire.stream_id import LAST, ZERO, StreamId

_LARGEST_PAGE = 2000  # maximum number of entries of a page


def pages(
    connection: Connection, stream: bytes, after: StreamId, upto: StreamId = LAST, *, most: int | None = None
) -> Iterator[list[Entry]]:
    """Yield the entries in (after, upto], at most `most`, in pages of about a megabyte."""

    def command(first: StreamId, count: int) -> Command:
        return ("XRANGE", stream, str(first), _end(upto), "COUNT", count)

    return _pages(connection, command, after.next(), StreamId.next, upto, most) if after < upto else iter(())


def pages_back(
    connection: Connection, stream: bytes, upto: StreamId = LAST, *, most: int | None = None
) -> Iterator[list[Entry]]:
    """Yield the entries up to an ID, newest first, at most `most`, in pages of about a megabyte."""

    def command(first: StreamId, count: int) -> Command:
        return ("XREVRANGE", stream, _end(first), "-", "COUNT", count)

    return _pages(connection, command, upto, StreamId.before, ZERO.next(), most)


def _pages(
    connection: Connection,
    command: Callable[[StreamId, int], Command],
    first: StreamId,
    following: Callable[[StreamId], StreamId],
    end: StreamId,
    most: int | None,
) -> Iterator[list[Entry]]:
    """Yield pages of at most `most` entries in total. `command` reads a number of entries from the ID `first` on.

    `following`: returns the ID at which the next page starts. `end`: ID of the last possible entry.
    """
    size = PageSize(_LARGEST_PAGE)
    while most != 0:
        count = size.now if most is None else min(size.now, most)
        page: list[Entry] = ask(connection, *command(first, count))
        if page:
            yield page
        if len(page) < count or (last := StreamId.parse(page[-1][0])) == end:
            return
        first = following(last)
        most = None if most is None else most - len(page)
        size.update(len(page), sum(len(word) for _, words in page for word in words or ()))


def back(connection: Connection, stream: bytes, upto: StreamId, count: int) -> tuple[StreamId, int]:
    """Return two values: the ID of the entry before the last `count` entries up to `upto`, and `count`.

    If there is no such entry, return 0-0 and the number of entries up to `upto`.
    """
    passed = 0
    for page in pages_back(connection, stream, upto, most=count + 1):
        passed += len(page)
        if passed > count:
            return StreamId.parse(page[-1][0]), count
    return ZERO, passed


def forward(connection: Connection, stream: bytes, after: StreamId, count: int) -> tuple[StreamId, int]:
    """Return two values: the ID of the `count`-th entry after `after`, and `count`.

    If fewer entries follow `after`, return the last ID and the number of these entries.
    """
    passed = 0
    for page in pages(connection, stream, after, most=count):
        after = StreamId.parse(page[-1][0])
        passed += len(page)
    return after, passed


def _end(upto: StreamId) -> str:
    return "+" if upto == LAST else str(upto)


def after_of(connection: Connection, stream: Stream, position: Position, now: int) -> StreamId:
    """Return the ID after which the position begins: all later entries are at or after the position.

    A number of entries is counted from the stream's end.
    """
    if position.kind == "start":
        return ZERO
    if position.kind == "end":
        return stream.last_id
    if position.kind == "ago":
        return StreamId(max(0, now - position.ago), 0).before()
    if position.kind == "entries":
        return back(connection, stream.name, stream.last_id, -position.entries)[0]
    assert position.id is not None
    return position.id.before()


#: An entry with its stream's name.
Found = tuple[bytes, Entry]

_WAIT_MS = 1000  # time for which a request blocks, and thus the maximum delay of Ctrl-C
_POLL_SECONDS = 0.2  # interval of requests in a cluster, where one request cannot wait for streams of several slots
_COUNT = 500  # maximum number of entries of each stream per request
_PAUSE_SECONDS = 0.5  # pause after a failure
_WAITS_FOR = ("SERVER_UNREACHABLE", "CONNECTION_BROKEN")


def present(connection: Connection, spans: Mapping[bytes, tuple[StreamId, StreamId]]) -> Iterator[Found]:
    """Yield the entries of each stream in its range (after, upto], merged in the order of their IDs."""

    def read(name: bytes, after: StreamId, upto: StreamId) -> Iterator[Found]:
        for page in pages(connection, name, after, upto):
            for entry in page:
                yield name, entry

    return _merged([read(name, *span) for name, span in spans.items()])


def last(
    connection: Connection, ends: Mapping[bytes, StreamId], wanted: Callable[[Found], bool], count: int
) -> Iterator[Found]:
    """Yield the last `count` wanted entries of each stream up to its end, merged in the order of their IDs.

    Each stream is searched backwards, up to its first entry if fewer entries are wanted.
    """

    def search(name: bytes, upto: StreamId) -> list[Found]:
        every = ((name, entry) for page in pages_back(connection, name, upto) for entry in page)
        return list(itertools.islice(filter(wanted, every), count))[::-1]

    return _merged([search(name, upto) for name, upto in ends.items()])


def _merged(streams: Sequence[Iterable[Found]]) -> Iterator[Found]:
    return heapq.merge(*streams, key=lambda found: (StreamId.parse(found[1][0]), found[0]))


def follow(
    connection: Connection, positions: Mapping[bytes, StreamId], lost: Callable[[str], None]
) -> Iterator[list[Found]]:
    """Yield new entries after these IDs endlessly, and empty lists in between. `lost` gets messages about the
    connection.
    """
    after = dict(positions)
    for page in retry_forever(lambda: _news(connection, after), lost):
        for name, entry in page:
            after[name] = StreamId.parse(entry[0])
        yield page


def retry_forever(read: Callable[[], list[Found]], lost: Callable[[str], None]) -> Iterator[list[Found]]:
    """Yield results of `read` endlessly.

    Call `lost` with a message when the server becomes unreachable, and when it is back.
    """
    unreachable = False
    while True:
        try:
            page = read()
        except (PystreamsError, *BROKEN) as failure:
            if isinstance(failure, PystreamsError) and not _may_pass(failure):
                raise
            if not unreachable:
                lost("The server is unreachable. Waiting for it.")
            unreachable = True
            time.sleep(_PAUSE_SECONDS)
            continue
        if unreachable:
            lost("The server is reachable again.")
        unreachable = False
        yield page


def _may_pass(failure: PystreamsError) -> bool:
    """Return whether the server, or another one in its place, may answer later: it is unreachable, or has just become a
    replica.
    """
    refused = failure.condition == "SERVER_REFUSED" and refusal_of(failure.parameters["reason"]) is Refusal.LATER
    return refused or failure.condition in _WAITS_FOR


def _news(connection: Connection, after: Mapping[bytes, StreamId]) -> list[Found]:
    together: dict[int, list[bytes]] = {}
    for name in after:
        together.setdefault(slot_of(name) if connection.topology.is_cluster else 0, []).append(name)
    blocks: Command = ("BLOCK", _WAIT_MS) if len(together) == 1 else ()
    commands: list[Command] = [
        ("XREAD", "COUNT", _COUNT, *blocks, "STREAMS", *some, *(str(after[name]) for name in some))
        for some in together.values()
    ]
    found = [entry for reply in ask_all(connection, commands) for entry in listed(reply)]
    if not found and not blocks:
        time.sleep(_POLL_SECONDS)
    return found


def listed(reply: Any) -> list[Found]:
    """Return the entries of a reply to XREAD or XREADGROUP, in the order of their IDs."""
    found = [(name, (entry[0], entry[1] or [])) for name, page in reply or () for entry in page]
    return sorted(found, key=lambda each: StreamId.parse(each[1][0])) if len(reply or ()) > 1 else found


_READ_COUNT = 100  # maximum number of entries per read


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
        count = _READ_COUNT if most is None else min(_READ_COUNT, most)
        if not wait:
            return self._once(count, wait=False)
        pages = retry_forever(lambda: [(self._stream, entry) for entry in self._once(count, wait=True)], lost)
        return [entry for _, entry in next(pages)]

    def _once(self, count: int, *, wait: bool) -> list[Entry]:
        head = ("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", count)
        if self._again:
            found = listed(ask(self._connection, *head, "STREAMS", self._stream, self._last))
            if not found:
                self._again = False
                return self._once(count, wait=wait)
        else:
            block = ("BLOCK", _WAIT_MS) if wait else ()
            try:
                found = listed(ask(self._connection, *head, *block, "STREAMS", self._stream, ">"))
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
