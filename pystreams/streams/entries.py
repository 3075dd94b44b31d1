"""Entries in pages of a bounded size, and the ID that a position denotes in a stream."""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.streams.inventory import Stream
from pystreams.streams.paged_calls import ask
from pystreams.values.fields import Entry
from pystreams.values.times import Position
from streamclient.connection import Connection
from streamclient.streams.page_size import PageSize
from streamwire.stream_id import LAST, ZERO, StreamId

_LARGEST_PAGE = 2000  # maximum number of entries of a page


def pages(
    connection: Connection, stream: bytes, after: StreamId, upto: StreamId = LAST, *, most: int | None = None
) -> Iterator[list[Entry]]:
    """Yield the entries in (after, upto], at most `most`, in pages of about a megabyte."""
    size = PageSize(_LARGEST_PAGE)
    left = most
    while after < upto and left != 0:
        count = size.now if left is None else min(size.now, left)
        page: list[Entry] = ask(connection, "XRANGE", stream, str(after.next()), _end(upto), "COUNT", count)
        if page:
            yield page
        if len(page) < count:
            return
        after = StreamId.parse(page[-1][0])
        left = None if left is None else left - len(page)
        size.update(len(page), _bytes(page))


def pages_back(
    connection: Connection, stream: bytes, upto: StreamId = LAST, *, most: int | None = None
) -> Iterator[list[Entry]]:
    """Yield the entries up to an ID, newest first, at most `most`, in pages of about a megabyte."""
    size = PageSize(_LARGEST_PAGE)
    left = most
    while left != 0:
        count = size.now if left is None else min(size.now, left)
        page: list[Entry] = ask(connection, "XREVRANGE", stream, _end(upto), "-", "COUNT", count)
        if page:
            yield page
        if len(page) < count or StreamId.parse(page[-1][0]) == ZERO.next():
            return
        upto = StreamId.parse(page[-1][0]).before()
        left = None if left is None else left - len(page)
        size.update(len(page), _bytes(page))


def back(connection: Connection, stream: bytes, upto: StreamId, count: int) -> tuple[StreamId, int]:
    """Return two values: the ID of the entry before the last `count` entries up to `upto`, and `count`.

    If there is no such entry, return 0-0 and the number of entries up to `upto`.
    """
    size = PageSize(_LARGEST_PAGE)
    passed = 0
    while True:
        requested = min(size.now, count + 1 - passed)
        page: list[Entry] = ask(connection, "XREVRANGE", stream, _end(upto), "-", "COUNT", requested)
        passed += len(page)
        if passed > count:
            return StreamId.parse(page[-1][0]), count
        if len(page) < requested:
            return ZERO, passed
        upto = StreamId.parse(page[-1][0]).before()
        size.update(len(page), _bytes(page))


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


def _bytes(page: list[Entry]) -> int:
    return sum(len(word) for _, words in page for word in words or ())


def after_of(connection: Connection, stream: Stream, position: Position, now: int) -> StreamId:
    """Return the ID after which the position begins: all later entries are at or after the position.

    A number of entries is counted from the stream's end.
    """
    if position.kind == "start":
        return ZERO
    if position.kind == "end":
        return stream.generated
    if position.kind == "ago":
        return StreamId(max(0, now - position.ago), 0).before()
    if position.kind == "entries":
        return back(connection, stream.name, stream.generated, -position.entries)[0]
    assert position.id is not None
    return position.id.before()


def between(
    connection: Connection, stream: Stream, begin: Position, end: Position, now: int
) -> tuple[StreamId, StreamId]:
    """Convert the positions [begin, end) to the IDs (after, upto] that `pages` takes."""
    after = after_of(connection, stream, begin, now)
    return after, min(after_of(connection, stream, end, now), stream.generated)
