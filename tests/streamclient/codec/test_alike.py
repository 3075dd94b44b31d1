"""The fastest decoder of pages of uniform entries: it returns the parser's bytes and numbers, or declines the page."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.columns import conversion
from streamclient.codec import decode, reference
from streamclient.codec.decode import decode_page
from streamclient.codec.reply import Page
from streamwire import digits

unhurried = settings(deadline=None)
NAMES = st.lists(st.sampled_from([b"a", b"b", b"", b"temperature", b"n*", b"12", b"x\r\ny"]), min_size=1, max_size=4)
VALUES = st.one_of(
    st.integers(-(10**9), 10**9).map(lambda n: b"%d" % n),
    st.decimals(-9999, 9999, places=2).map(lambda d: str(d).encode()),
    st.sampled_from([b"", b"*", b"\r\n", b"x" * 100, b"y" * 1200, b"$3\r\nabc", b"\xff"]),
    st.binary(max_size=9),
)
USUAL = st.one_of(st.integers(0, 99999).map(lambda n: b"%d" % n), st.floats(-99, 99).map(lambda x: b"%.1f" % x))
HEAD = b"*40\r\n"
SLACK = b"$32\r\nabcdefghijk"


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


@st.composite
def pages(draw: st.DrawFn, of: st.SearchStrategy[bytes]) -> tuple[bytes, int, list[bytes]]:
    """Generate frames of entries with the same fields, with the number of frames and the field names."""
    names = draw(NAMES)
    count = draw(st.integers(30, 40))
    ms = draw(st.sampled_from([1, 5_000, 1_700_000_000_000]))
    rows = draw(st.lists(st.lists(of, min_size=len(names), max_size=len(names)), min_size=1, max_size=5))
    frames = b""
    for n in range(count):
        row = rows[n % len(rows)]
        words = [word for pair in zip(names, row, strict=True) for word in pair]
        frames += b"*2\r\n" + bulk(b"%d-%d" % (ms + n, n * n)) + b"*%d\r\n" % len(words) + b"".join(map(bulk, words))
    return frames, count, names


def seen(page: Page, names: list[bytes]) -> list[object]:
    columns = [page.column(name).to_pylist() for name in [*names, b"missing"]]
    fields = [part.to_pylist() for part in page.fields()]
    ids = page.ids().to_pylist()
    assert [page.id_texts(), page.id_texts(slice(1, None, 2)), page.last_id()] == [ids, ids[1::2], ids[-1]]
    return [page.count, ids, page.milliseconds().to_pylist(), page.sequences().to_pylist(), columns, fields]


@unhurried
@given(st.one_of(pages(USUAL), pages(VALUES)), st.sampled_from([HEAD, b"", b"\n", b"\r\n", b"\rx", b"x\r\n"]))
def test_an_accepted_page_has_the_columns_of_the_parser(made: tuple[bytes, int, list[bytes]], before: bytes) -> None:
    """An accepted page has the parser's columns, and numbers equal to their texts, for any values."""
    frames, count, names = made
    buffer, start, stop = before + frames + SLACK, len(before), len(before) + len(frames)
    slow = reference.parse(buffer, start, stop, count)
    page = decode.scan(buffer, start, stop, count)
    if page is not None:
        assert seen(page, names) == seen(slow, names)
        for name in names:
            for numbers, kind in ((page.integers(name), pa.int64()), (page.floats(name), pa.float64())):
                if numbers is not None:
                    expected = conversion.from_text(slow.column(name), kind).to_pylist()
                    assert list(map(repr, numbers.to_pylist())) == list(map(repr, expected))
    assert seen(decode_page(buffer, start, stop, count), names) == seen(slow, names)


@unhurried
@given(pages(USUAL))
def test_entries_of_one_producer_are_accepted(made: tuple[bytes, int, list[bytes]]) -> None:
    """Entries of one producer, with IDs of the current time, are accepted."""
    frames, count, names = made
    usual = count >= 32 and b"1700000000000-0" in frames and b"n*" not in names
    page = decode.scan(HEAD + frames + SLACK, len(HEAD), len(HEAD) + len(frames), count)
    assert (page is not None) >= usual


@unhurried
@given(pages(USUAL), st.data())
def test_a_damaged_page_is_never_misread(made: tuple[bytes, int, list[bytes]], data: st.DataObject) -> None:
    """A page with changed, removed or inserted bytes is declined, or read as the parser reads it."""
    frames, count, names = made
    damaged = bytearray(frames)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        how = data.draw(st.integers(0, 2))
        damaged[at : at + (how < 2)] = b"" if how == 0 else data.draw(st.sampled_from([b"\n", b"*", b"9", b"$", b"x"]))
    page = decode.scan(HEAD + bytes(damaged) + SLACK, len(HEAD), len(HEAD) + len(damaged), count)
    if page is not None:
        slow = reference.parse(bytes(damaged), 0, len(damaged), count)
        assert seen(page, names) == seen(slow, names)


TEXTS = st.one_of(
    st.integers(-9_999_999, 99_999_999).map(str),
    st.decimals(-9999, 9999, places=3).map(str),
    st.sampled_from(
        ["-", ".", "-.", "1.", ".5", "-.5", "--1", "1.2.3", "+1", "1e5", "0x1", "", "-0", "-0.0", "00", "1 "]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8),
)


@unhurried
@given(st.lists(TEXTS.filter(lambda text: len(text) <= 8), min_size=1, max_size=6))
def test_numbers_are_those_of_their_texts(texts: list[str]) -> None:
    """A column is declined, or every number equals its text exactly, including the sign of zero."""
    raw = [text.encode() for text in texts]
    words = np.array([int.from_bytes(text.ljust(8, b"*"), "little") for text in raw], np.uint64)
    lengths = np.array([len(text) for text in raw], np.int64)
    column = pa.array(raw, pa.binary())
    whole, real = digits.integers(words, lengths), digits.floats(words, lengths)
    if whole is not None:
        assert whole.tolist() == conversion.from_text(column, pa.int64()).to_pylist()
    if real is not None:
        expected = conversion.from_text(column, pa.float64()).to_pylist()
        assert [(x, math.copysign(1, x)) for x in real.tolist()] == [(x, math.copysign(1, x)) for x in expected]
    if all(text.isdigit() for text in texts):
        assert whole is not None
        assert real is not None
