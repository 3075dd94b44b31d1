"""Reading entries of ranges as pages: of one range, of many small ranges together, or only to count them.

`pages` reads one range by XRANGE, `columns` by PS.COLUMNS if the caller accepts columns and the server has them and is
no cluster. The rows are the same either way, on every attempt and in any state of a group. The next page is requested
before a page is decoded, so that the server works in parallel; the likely last ID of a reply is found without decoding.

A request, a reply and a record batch for each of a thousand streams cost far more than their entries. So `pages_of`
requests small ranges together, about a megabyte in total, and decodes their replies together. In all other cases (an
error, a large range, or more entries than expected) `columns` reads the range.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamclient.capabilities import is_refused
from streamclient.codec import blocks
from streamclient.codec.blocks import Frames
from streamclient.codec.decode import decode_page
from streamclient.codec.reply import Page, ReplyError, array_header
from streamclient.connection import Command, Connection
from streamclient.errors import PystreamsError, error
from streamclient.refusals import refused
from streamclient.streams.page_size import TARGET_BYTES, PageSize
from streamclient.streams.states import Range
from streamwire.stream_id import StreamId

_COUNT_PAGE = 10_000  # maximum number of entries of a page that is only counted
_AT_ONCE, _MOST_AT_ONCE = 8, 500  # maximum number of pages, and of streams, that are requested at once to be counted
_HEAD = b"*2\r\n$"  # start of an entry in a reply
_MOST_RANGES = 256  # maximum number of ranges in one request
_UNKNOWN = 100  # assumed number of entries of a range without an estimate
_LINE = b"\r\n"
_SPARE = bytes(16)  # the codec may read this far beyond the last entry

#: A request to `marks`: (stream, after, upto, grid, most).
Counting = tuple[str, StreamId, StreamId, int, int]

#: Pages, each with the ranges of its entries, in order, and the number of entries of each range.
Pages = Iterator[tuple[Page, Sequence[tuple[Range, int]]]]


@dataclass(frozen=True)
class _Reply:
    """A reply with entries: its pages, its likely last ID (None: unknown), and whether more entries may follow."""

    pages: Iterator[Page]
    guess: StreamId | None
    more: bool


class _Rows:
    """Requests by XRANGE. A reply with fewer entries than requested is the last one."""

    name = "XRANGE"

    def __init__(self, stream: str, upto: StreamId, size: PageSize, limit: int | None) -> None:
        self.stream = stream
        self.upto = upto
        self._size = size
        self._left = limit
        self._requested = 0

    def command(self, after: StreamId) -> Command:
        """Return the command that reads a page of entries after `after`."""
        self._requested = self._size.now if self._left is None else min(self._size.now, self._left)
        return command(self.stream, after, self.upto, self._requested)

    def read(self, buffer: bytearray, stop: int) -> _Reply | None:
        """Return the parts of a reply; None if it has no entries. Raises `ReplyError`."""
        count, start = array_header(buffer)
        if count < 1:
            return None
        self._size.update(count, stop)
        more = count >= self._requested
        if self._left is not None:
            self._left -= count
            more = more and self._left > 0
        return _Reply(_decoded(buffer, start, stop, count), _last_id(buffer, stop), more)


def _decoded(buffer: bytearray, start: int, stop: int, count: int) -> Iterator[Page]:
    yield decode_page(buffer, start, stop, count)


class _Columns:
    """Requests by PS.COLUMNS. A reply ends after about a megabyte."""

    name = "PS.COLUMNS"

    def __init__(self, stream: str, upto: StreamId, most: int, size: PageSize, fields: Sequence[bytes] | None) -> None:
        self.stream = stream
        self.upto = upto
        self._most = most
        self._size = size
        self._fields: Command = () if fields is None else ("FIELDS", len(fields), *fields)

    def command(self, after: StreamId) -> Command:
        """Return the command that reads a page of entries after `after`."""
        # Page sizes of later commands depend on the size of complete entries, so the first page has all fields.
        named = self._fields if self._size.is_known else ()
        span = (f"({after}", str(self.upto), "COUNT", self._most, "BYTES", TARGET_BYTES)
        return (self.name, self.stream, *span, *named)

    def read(self, buffer: bytearray, stop: int) -> _Reply | None:
        """Return the parts of a reply; None if it has no entries. Raises `ReplyError`."""
        del stop
        found = blocks.blocks(buffer)
        if not found:
            return None
        # The size of complete entries is known only if all of their fields were sent.
        if all(isinstance(block, Frames) or block.is_whole for block in found):
            self._size.update(sum(block.count for block in found), sum(block.frame_bytes for block in found))
        last = found[-1]
        if isinstance(last, Frames):
            guess = _last_id(buffer, last.span[1])
        else:
            guess = StreamId.parse(blocks.last_id(buffer, last))
        return _Reply(blocks.pages(buffer, found), guess, more=True)


def pages(
    connection: Connection,
    stream: str,
    after: StreamId,
    upto: StreamId,
    most: int,
    *,
    size: PageSize | None = None,
    limit: int | None = None,
) -> Iterator[Page]:
    """Yield the entries of `stream` in (after, upto], in order, as pages of at most `most` entries.

    `size`: the page size learned from earlier pages. `limit`: maximum number of entries. Raises NOT_A_STREAM and
    SERVER_REFUSED.
    """
    return _pages(connection, after, _Rows(stream, upto, size or PageSize(most), limit))


def columns(
    connection: Connection,
    stream: str,
    after: StreamId,
    upto: StreamId,
    most: int,
    fields: Sequence[bytes] | None = None,
    size: PageSize | None = None,
) -> Iterator[Page]:
    """Yield pages like `pages`, by PS.COLUMNS if the server has it and is no cluster.

    Values of fields that are not in `fields` may be missing. If `fields` is None, all values are present.
    """
    size = size or PageSize(most)
    rows = _Rows(stream, upto, size, None)
    if connection.topology.is_cluster or not connection.capabilities.has(_Columns.name):
        return _pages(connection, after, rows)
    return _pages(connection, after, _Columns(stream, upto, most, size, fields), rows)


def _pages(
    connection: Connection, after: StreamId, source: _Rows | _Columns, otherwise: _Rows | None = None
) -> Iterator[Page]:
    """Send the first request, and return the pages of a source, or of `otherwise` if its command is refused."""

    def ask(behind: StreamId) -> bytes:
        return connection.request([source.command(behind)])

    first = ask(after)

    def received(token: bytes, after: StreamId) -> Iterator[Page]:
        nonlocal source
        while True:
            buffer, stop = connection.receive(token)
            try:
                reply = source.read(buffer, stop)
            except ReplyError as refusal:
                if otherwise is None or source is otherwise or not is_refused(str(refusal)):
                    raise _failure(connection, source.stream, source.name, refusal) from None
                connection.capabilities.mark_missing(source.name)
                source = otherwise
                token = ask(after)
                continue
            if reply is None:
                return
            guess = reply.guess if reply.more and reply.guess is not None and reply.guess < source.upto else None
            ahead = None if guess is None else ask(guess)
            for page in reply.pages:
                after = StreamId.parse(page.last_id())
                yield page
            # Only decoding shows the last ID: a value may look like the head of an entry.
            if ahead is not None and guess != after:
                connection.receive(ahead)
                ahead = None
            if not reply.more or after >= source.upto:
                return
            token = ahead or ask(after)

    return received(first, after)


def _last_id(buffer: bytearray, stop: int) -> StreamId | None:
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

    The first pages of several streams are requested together. The page size is learned from the streams before.
    """
    results: list[tuple[list[StreamId], int]] = []
    size = PageSize(_COUNT_PAGE)
    while len(results) < len(requested):
        some: list[Counting] = []
        room = _AT_ONCE * size.now
        for request in requested[len(results) : len(results) + _MOST_AT_ONCE]:
            if room <= 0:
                break
            some.append(request)
            room -= min(size.now, request[4])
        read = [
            pages(connection, stream, after, upto, _COUNT_PAGE, size=size, limit=most)
            for stream, after, upto, _, most in some
        ]
        for (*_, grid, _), of_stream in zip(some, read, strict=True):
            found: list[StreamId] = []
            total = 0
            for page in of_stream:
                first = (grid - 1 - total) % grid
                found.extend(StreamId.parse(entry_id) for entry_id in page.id_texts(slice(first, None, grid)))
                total += page.count
            results.append((found, total))
    return results


def command(stream: str, after: StreamId, upto: StreamId, count: int) -> Command:
    """Return the command that reads at most `count` entries in (after, upto]."""
    return ("XRANGE", stream, f"({after}", str(upto), "COUNT", count)


def _failure(connection: Connection, stream: str, command: str, refusal: ReplyError) -> PystreamsError:
    """Return the error for a refused command that reads entries: NOT_A_STREAM, or the error of `refused`."""
    if str(refusal).startswith("WRONGTYPE"):
        return error("NOT_A_STREAM", stream=stream, address=connection.address)
    return refused(connection.address, command, refusal, stream)


def empty_read(stream: str) -> Command:
    """Return a command that reads nothing, to be sent after commands whose replies are suppressed.

    The refusals of those commands are suppressed as well. The server refuses this command for the same reasons, such as
    a key that has moved, so the refusal becomes visible.
    """
    return ("XRANGE", stream, "1-0", "0-0")


@dataclass(frozen=True)
class _Request:
    """A request in flight: its ranges, the requested number of entries of each, and the separator of their replies."""

    ranges: Sequence[Range]
    requested: Sequence[int]
    separator: bytes
    token: bytes


def pages_of(
    connection: Connection, ranges: Sequence[Range], most: int, fields: Sequence[bytes] | None = None
) -> Pages:
    """Yield the entries of all ranges, as pages of at most `most` entries. Raises NOT_A_STREAM and SERVER_REFUSED.

    Values of fields that are not in `fields` may be missing. If `fields` is None, all values are present.
    """
    size = PageSize(most)
    for of_node in connection.by_node(ranges, lambda part: part.stream):
        left = list(reversed(of_node))
        under_way: _Request | None = None
        while left or under_way is not None:
            following = None
            if left and not _is_large(left[-1], size):
                following = _send(connection, left, size)
            elif left and under_way is None:
                part = left.pop()
                for page in columns(connection, part.stream, part.after, part.upto, most, fields, size):
                    yield page, [(part, page.count)]
            if under_way is not None:
                yield from _received(connection, under_way, size, most, fields)
            under_way = following


def _expected(part: Range) -> int:
    return _UNKNOWN if part.size is None else part.size


def _is_large(part: Range, size: PageSize) -> bool:
    """Return whether the range fills a page by itself."""
    return _expected(part) >= size.now


def _send(connection: Connection, left: list[Range], size: PageSize) -> _Request:
    """Request the next ranges that together make a page, and remove them from the end of `left`."""
    ranges: list[Range] = []
    requested: list[int] = []
    room = size.now
    while left and len(ranges) < _MOST_RANGES and (not ranges or _expected(left[-1]) <= room):
        part = left.pop()
        ranges.append(part)
        requested.append(_expected(part) + 1)  # one more, so that a full reply reveals unexpected entries
        room -= _expected(part)
    mark = secrets.token_hex(16).encode()
    commands: list[Command] = []
    for part, count in zip(ranges, requested, strict=True):
        commands += [command(part.stream, part.after, part.upto, count), ("ECHO", mark)]
    return _Request(ranges, requested, b"$32\r\n%b\r\n" % mark, connection.request(commands))


@dataclass(frozen=True)
class Body:
    """The entries of a reply before they are decoded: `count` entries in `buffer` between `start` and `stop`."""

    buffer: bytearray
    start: int
    stop: int
    count: int

    def page(self) -> Page:
        """Return the entries as a page."""
        return decode_page(self.buffer, self.start, self.stop, self.count)


def joined(bodies: Sequence[Body]) -> Page:
    """Return the entries of several replies as one page."""
    if len(bodies) == 1:
        return bodies[0].page()
    body = b"".join((_LINE, *(memoryview(each.buffer)[each.start : each.stop] for each in bodies), _SPARE))
    return decode_page(body, len(_LINE), len(body) - len(_SPARE), sum(each.count for each in bodies))


def _received(
    connection: Connection, request: _Request, size: PageSize, most: int, fields: Sequence[bytes] | None
) -> Pages:
    """Yield the entries of a request's ranges.

    The first page has the ranges whose replies are neither errors nor longer than expected. The other ranges follow.
    """
    buffer, stop = connection.receive(request.token)
    bodies: list[Body] = []
    found: list[tuple[Range, int]] = []
    others: list[Range] = []
    at = 0
    for part, requested in zip(request.ranges, request.requested, strict=True):
        end = buffer.find(request.separator, at, stop)
        head = buffer.find(_LINE, at, max(end, at))
        if end < 0 or head < 0 or buffer[at] != ord("*"):
            others.append(part)  # an error, which may concern the whole request
        elif (count := int(buffer[at + 1 : head])) >= requested:
            others.append(part)
        else:
            found.append((part, max(count, 0)))
            bodies.append(Body(buffer, head + 2, end, max(count, 0)))
        at = at if end < 0 else end + len(request.separator)
    total = sum(count for _, count in found)
    if total:
        size.update(total, sum(body.stop - body.start for body in bodies))
        yield joined(bodies), found
    for part in others:
        for page in columns(connection, part.stream, part.after, part.upto, most, fields, size):
            yield page, [(part, page.count)]
