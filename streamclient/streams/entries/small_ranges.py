"""Reading ranges of many streams: small ranges are requested together, by several XRANGE, and decoded together.

A request, a reply and a record batch for each of a thousand streams cost far more than their entries. Here a request
covers ranges of about a megabyte in total, and the next request is in flight while a reply is decoded. In all other
cases (an error, a large range, or more entries than expected) `column_reader` reads the range. The entries are the same
either way, in the order of their stream.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamclient.codec.decode import decode_page
from streamclient.codec.reply import Page
from streamclient.config.address import Endpoint
from streamclient.connection import Command, Connection
from streamclient.streams.entries import column_reader, xrange
from streamclient.streams.entries.page_size import PageSize
from streamclient.streams.model import Range

_MOST_RANGES = 256  # maximum number of ranges in one request
_UNKNOWN = 100  # assumed number of entries of a range without an estimate
_LINE = b"\r\n"
_SPARE = bytes(16)  # the codec may read this far beyond the last entry

#: Pages, each with the ranges of its entries, in order, and the number of entries of each range.
Pages = Iterator[tuple[Page, Sequence[tuple[Range, int]]]]


@dataclass(frozen=True)
class _Request:
    """A request in flight: its ranges, the requested number of entries of each, and the separator of their replies."""

    ranges: Sequence[Range]
    requested: Sequence[int]
    separator: bytes
    token: bytes


def pages(connection: Connection, ranges: Sequence[Range], most: int, fields: Sequence[bytes] | None = None) -> Pages:
    """Yield the entries of all ranges, as pages of at most `most` entries. Raises NOT_A_STREAM and SERVER_REFUSED.

    Values of fields that are not in `fields` may be missing. If `fields` is None, all values are present.
    """
    size = PageSize(most)
    for of_node in _by_node(connection, ranges):
        left = list(reversed(of_node))
        under_way: _Request | None = None
        while left or under_way is not None:
            following = None
            if left and not _is_large(left[-1], size):
                following = _send(connection, left, size)
            elif left and under_way is None:
                part = left.pop()
                for page in column_reader.pages(connection, part.stream, part.after, part.upto, most, fields, size):
                    yield page, [(part, page.count)]
            if under_way is not None:
                yield from _received(connection, under_way, size, most, fields)
            under_way = following


def _by_node(connection: Connection, ranges: Sequence[Range]) -> list[list[Range]]:
    """Return the ranges grouped by node, since a request goes to one node."""
    nodes: dict[Endpoint | None, list[Range]] = {}
    for part in ranges:
        nodes.setdefault(connection.node_of(part.stream), []).append(part)
    return list(nodes.values())


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
        commands += [xrange.command(part.stream, part.after, part.upto, count), ("ECHO", mark)]
    return _Request(ranges, requested, b"$32\r\n%b\r\n" % mark, connection.request(commands))


def joined(bodies: Sequence[bytes], count: int) -> Page:
    """Return the page of the `count` entries in `bodies`, which are replies without their first line."""
    body = b"".join((_LINE, *bodies, _SPARE))
    return decode_page(body, len(_LINE), len(body) - len(_SPARE), count)


def _received(
    connection: Connection, request: _Request, size: PageSize, most: int, fields: Sequence[bytes] | None
) -> Pages:
    """Yield the entries of a request's ranges.

    The first page has the ranges whose replies are neither errors nor longer than expected. The other ranges follow.
    """
    buffer, stop = connection.receive(request.token)
    bodies: list[bytes] = []
    found: list[tuple[Range, int]] = []
    others: list[Range] = []
    at = 0
    with memoryview(buffer) as view:
        for part, requested in zip(request.ranges, request.requested, strict=True):
            end = buffer.find(request.separator, at, stop)
            head = buffer.find(_LINE, at, max(end, at))
            if end < 0 or head < 0 or buffer[at] != ord("*"):
                others.append(part)  # an error, which may concern the whole request
            elif (count := int(buffer[at + 1 : head])) >= requested:
                others.append(part)
            else:
                found.append((part, max(count, 0)))
                bodies.append(bytes(view[head + 2 : end]))
            at = at if end < 0 else end + len(request.separator)
    total = sum(count for _, count in found)
    if total:
        page = joined(bodies, total)
        size.update(total, sum(map(len, bodies)))
        yield page, found
    for part in others:
        for page in column_reader.pages(connection, part.stream, part.after, part.upto, most, fields, size):
            yield page, [(part, page.count)]
