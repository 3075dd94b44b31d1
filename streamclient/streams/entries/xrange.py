"""Reading a range of a stream: XRANGE page by page.

The entries of a range always come from XRANGE over exactly that range. So they are the same on every attempt, in any
state of a group.

This module depends on the codec's pages and a connection, but not on Spark or offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence

from streamclient.codec.decode import decode_page
from streamclient.codec.reply import Page, ReplyError, array_header
from streamclient.connection import Command, Connection
from streamclient.errors import PystreamsError, error
from streamclient.refusals import refused
from streamclient.streams.entries.page_size import PageSize
from streamwire.stream_id import LAST, StreamId

_COUNT_PAGE = 10_000  # maximum number of entries of a page that is only counted
_SAMPLE_BYTES = 1 << 18  # bytes after which sampling stops
_SAMPLE_GROWTH = 10  # ratio of a sample's number of entries to the previous sample's
_SHORT_RANGES, _SHORT_ENTRIES = 500, 50_000  # maximum number of short ranges read at a time, and of their entries
_AT_ONCE = 8  # number of streams counted at a time
_HEAD_BYTES = 80  # maximum number of bytes before an entry's first field
_HEAD = b"*2\r\n$"  # start of an entry in a reply

#: A request to `marks`: (stream, after, upto, grid, counted, most).
#:
#: `counted`: number of entries already counted up to `after`. The result and the limit `most` include them.
Counting = tuple[str, StreamId, StreamId, int, int, int]

_Counted = Generator[bytes, tuple[bytearray, int], tuple[list[StreamId], int]]


def pages(
    connection: Connection,
    stream: str,
    after: StreamId,
    upto: StreamId,
    most: int,
    size: PageSize | None = None,
) -> Iterator[Page]:
    """Yield the entries of `stream` in (after, upto], in order, as pages of at most `most` entries.

    `size`: the page size learned from earlier pages.

    The next page is requested before a page is decoded, so that the server works in parallel. Raises NOT_A_STREAM
    and SERVER_REFUSED.
    """
    size = size or PageSize(most)
    requested = size.now
    token = connection.request([command(stream, after, upto, requested)])
    while True:
        buffer, stop = connection.receive(token)
        count, start = _head(connection, stream, buffer)
        if count < 1:
            break
        full = count >= requested
        size.update(count, stop, fields_at(buffer, start))
        guess = last_id(buffer, stop) if full else None
        if guess is not None and guess >= upto:
            guess = None
        if guess is not None:
            requested = size.now
            token = connection.request([command(stream, guess, upto, requested)])
        page = decode_page(buffer, start, stop, count)
        last = StreamId.parse(page.last_id())
        finished = not full or last >= upto
        if guess is not None and (finished or guess != last):
            connection.receive(token)
            guess = None
        if not finished and guess is None:
            requested = size.now
            token = connection.request([command(stream, last, upto, requested)])
        yield page
        if finished:
            break


def fields_at(buffer: bytearray, start: int) -> int:
    """Return the likely number of fields of the entry at `start`; 0 if it is not a plain entry."""
    head = bytes(buffer[start : start + _HEAD_BYTES]).split(b"\r\n", 4)
    width = head[3][1:] if len(head) == 5 else b""
    return int(width) // 2 if width.isdigit() else 0


def last_id(buffer: bytearray, stop: int) -> StreamId | None:
    """Return the last entry's likely ID.

    Decoding has to confirm it, since a value may look like the head of an entry.
    """
    at = buffer.rfind(_HEAD, 0, stop)
    if at < 0:
        return None
    begin = buffer.find(b"\n", at + len(_HEAD), stop) + 1
    end = buffer.find(b"\r", begin, stop)
    try:
        return StreamId.parse(bytes(buffer[begin:end]))
    except ValueError:
        return None


def marks(connection: Connection, requested: Sequence[Counting]) -> list[tuple[list[StreamId], int]]:
    """For each request, return the ID of every `grid`-th entry in (after, upto], and the number of entries. Stops
    at `most` entries.

    Several streams are read at a time: the server works on one while another's entries are counted.
    """
    found: list[tuple[list[StreamId], int]] = [([], 0)] * len(requested)
    left = deque(enumerate(requested))
    under_way: deque[tuple[int, _Counted, bytes]] = deque()

    def advance(at: int, counted: _Counted, reply: tuple[bytearray, int] | None) -> None:
        try:
            under_way.append((at, counted, counted.send(reply)))  # type: ignore[arg-type]  # None starts the generator
        except StopIteration as end:
            found[at] = end.value

    while left or under_way:
        while left and len(under_way) < _AT_ONCE:
            at, request = left.popleft()
            advance(at, _counted(connection, *request), None)
        if under_way:
            at, counted, token = under_way.popleft()
            advance(at, counted, connection.receive(token))
    return found


def _counted(
    connection: Connection, stream: str, after: StreamId, upto: StreamId, grid: int, counted: int, most: int
) -> _Counted:
    """Compute the result of `marks` for one stream. Yields each request's token, and is sent the reply to it.

    As in `pages`, the next page is requested before a page is decoded.
    """
    found: list[StreamId] = []
    total = counted
    size = PageSize(_COUNT_PAGE)

    def ask(behind: StreamId, left: int) -> tuple[int, bytes]:
        requested = min(size.now, left)
        return requested, connection.request([command(stream, behind, upto, requested)])

    requested, token = ask(after, most - total)
    while True:
        buffer, stop = yield token
        count, start = _head(connection, stream, buffer)
        if count < 1:
            break
        ahead: tuple[int, bytes] | None = None
        continues = count >= requested and total + count < most
        size.update(count, stop)
        guess = last_id(buffer, stop) if continues else None
        if guess is not None:
            ahead = ask(guess, most - total - count)
        page = decode_page(buffer, start, stop, count)
        first = (grid - 1 - total) % grid
        found.extend(StreamId.parse(entry_id) for entry_id in page.id_texts(slice(first, None, grid)))
        total += count
        if not continues:
            break
        after = StreamId.parse(page.last_id())
        if ahead is not None and guess != after:
            yield ahead[1]
            ahead = None
        requested, token = ahead or ask(after, most - total)
    return found, total


def short_ids(
    connection: Connection, requested: Sequence[tuple[str, StreamId, int, StreamId]]
) -> Iterator[list[bytes]]:
    """Yield, for each (stream, after, count, upto), the IDs of the first entries in (after, upto], at most `count`.

    Many ranges are read at a time.
    """
    at = 0
    while at < len(requested):
        some, entries = [requested[at]], requested[at][2]
        for request in requested[at + 1 : at + _SHORT_RANGES]:
            entries += request[2]
            if entries > _SHORT_ENTRIES:
                break
            some.append(request)
        tokens = [connection.request([command(stream, after, upto, count)]) for stream, after, count, upto in some]
        for (stream, *_), token in zip(some, tokens, strict=True):
            page = _page(connection, stream, *connection.receive(token))
            yield [] if page is None else page.id_texts()
        at += len(some)


def average_entry_bytes(connection: Connection, stream: str, after: StreamId, sample: int) -> float:
    """Return the average size on the wire, in bytes, of the next entries after `after`; 0 without entries.

    At most `sample` entries are read: first one, then increasing numbers, until they have 256 KiB in total.
    """
    found = size = 0
    requested = 1
    while found < sample and size < _SAMPLE_BYTES:
        buffer, stop = connection.receive(
            connection.request([command(stream, after, LAST, min(requested, sample - found))])
        )
        page = _page(connection, stream, buffer, stop)
        if page is None:
            break
        found, size, after = found + page.count, size + stop, StreamId.parse(page.last_id())
        if page.count < requested:
            break
        requested *= _SAMPLE_GROWTH
    return size / found if found else 0.0


def command(stream: str, after: StreamId, upto: StreamId, count: int) -> Command:
    """Return the command that reads at most `count` entries in (after, upto]."""
    return ("XRANGE", stream, f"({after}", str(upto), "COUNT", count)


def _head(connection: Connection, stream: str, buffer: bytearray) -> tuple[int, int]:
    """Return the number of entries in a reply, and the position of the first one."""
    try:
        return array_header(buffer)
    except ReplyError as refusal:
        raise failure(connection, stream, "XRANGE", refusal) from None


def failure(connection: Connection, stream: str, command: str, refusal: ReplyError) -> PystreamsError:
    """Return the error for a refused command that reads entries: NOT_A_STREAM, or the error of `refused`."""
    if str(refusal).startswith("WRONGTYPE"):
        return error("NOT_A_STREAM", stream=stream, address=connection.address)
    return refused(connection.address, command, refusal, stream)


def _page(connection: Connection, stream: str, buffer: bytearray, stop: int) -> Page | None:
    count, start = _head(connection, stream, buffer)
    return decode_page(buffer, start, stop, count) if count > 0 else None


def empty_read(stream: str) -> Command:
    """Return a command that reads nothing, to be sent after commands whose replies are suppressed.

    The refusals of those commands are suppressed as well. The server refuses this command for the same reasons, such as
    a key that has moved, so the refusal becomes visible.
    """
    return ("XRANGE", stream, "1-0", "0-0")
