"""Entries of thousands of fields: the cost of a column does not grow with the number of other columns."""

from __future__ import annotations

import time

import pytest

from streamclient.codec import decode, reference
from streamclient.codec.reply import Page, last_of

HEAD, SLACK = b"*40\r\n", bytes(16)
ROWS = 40
WAYS = {"uniform": decode.scan, "parsed": reference.parse}


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def page_of(way: str, names: list[bytes]) -> tuple[Page, Page]:
    """Return a page of entries with these fields, and the same page read by the parser."""
    pairs = b"".join(bulk(name) + bulk(b"%d" % at) for at, name in enumerate(names))
    entry = b"*%d\r\n" % (2 * len(names)) + pairs
    frames = b"".join(b"*2\r\n" + bulk(b"1700000000000-%d" % row) + entry for row in range(ROWS))
    buffer, start, stop = HEAD + frames + SLACK, len(HEAD), len(HEAD) + len(frames)
    page = WAYS[way](buffer, start, stop, ROWS)
    assert page is not None
    return page, reference.parse(buffer, start, stop, ROWS)


def seconds(way: str, width: int) -> float:
    """Return the processor time in seconds for reading all columns once: the minimum of three runs."""
    names = [b"column_%d" % number for number in range(width)]
    page, _ = page_of(way, names)
    found = []
    for _ in range(3):
        begin = time.process_time()
        for name in names:
            page.column(name)
        found.append(time.process_time() - begin)
    return min(found)


@pytest.mark.parametrize("way", WAYS)
def test_the_cost_of_a_column_is_independent_of_the_number_of_columns(way: str) -> None:
    """Reading eight times as many columns takes less than 32 times as long."""
    assert seconds(way, 4000) < 32 * seconds(way, 500)


@pytest.mark.parametrize("way", WAYS)
def test_the_last_value_of_a_repeated_field_is_read(way: str) -> None:
    """If a field name is repeated, its last value is read, in columns and in the list of all fields."""
    names = [b"f%d" % (number % 700) for number in range(1000)]
    page, slow = page_of(way, names)
    assert [part.to_pylist() for part in page.fields()] == [part.to_pylist() for part in slow.fields()]
    for name in (b"f0", b"f299", b"f300", b"f699", b"none"):
        assert page.column(name).to_pylist() == slow.column(name).to_pylist()


def test_last_of() -> None:
    """Each name is returned once, with the index of its last field, in the order of these indexes."""
    assert list(last_of([b"a", b"b", b"a", b"c"]).items()) == [(b"b", 1), (b"a", 2), (b"c", 3)]
    assert last_of([]) == {}
