"""Replies to PS.COLUMNS: their pages equal those of XRANGE's reply with the same entries, for any blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamclient.codec import blocks, reference
from streamclient.codec.reply import Page, ReplyError
from tests.streamclient.codec.test_arrow import PLAIN, WORDS, frames, one_shape, seen, unhurried

Entry = tuple[bytes, list[bytes]]
NUMBERS = st.sampled_from([b"1", b"-12", b"3.5", b"12345678", b"-0.25", b"1234567.5", b"007", b"99"])


def bulk(data: bytes | None) -> bytes:
    return b"$-1\r\n" if data is None else b"$%d\r\n%b\r\n" % (len(data), data)


def framed(entries: Sequence[Entry]) -> bytes:
    """Return a block of frames."""
    return b"*2\r\n:%d\r\n" % len(entries) + bulk(frames(list(entries)))


def columnar(entries: Sequence[Entry], names: set[bytes] | None = None) -> bytes:
    """Return a block of columns of entries with the same fields, built one value at a time."""
    halves = [entry_id.split(b"-") for entry_id, _ in entries]
    parts = [bulk(np.array([int(half[at]) for half in halves], "<u8").tobytes()) for at in (0, 1)]
    for at, name in enumerate(entries[0][1][::2]):
        values = [words[2 * at + 1] for _, words in entries]
        positions = np.array([0, *accumulate(map(len, values))], "<i4").tobytes()
        is_sent = names is None or name in names
        parts += [bulk(name), bulk(positions if is_sent else None), bulk(b"".join(values) if is_sent else None)]
    return b"*%d\r\n:%d\r\n" % (1 + len(parts), len(entries)) + b"".join(parts)


def reply(*found: bytes) -> bytearray:
    return bytearray(b"*%d\r\n" % len(found) + b"".join(found) + b"$32\r\n" + bytes(34))


def checked(page: Page, entries: list[Entry]) -> None:
    """Assert that the page has the parser's result for the entries' frames."""
    data = frames(entries)
    wanted = reference.parse(data, 0, len(data), len(entries))
    names = [b"a", b"b", b"", b"missing"]
    assert seen(page, names) == seen(wanted, names)


@unhurried
@given(st.lists(st.tuples(one_shape(WORDS), st.booleans()), min_size=1, max_size=5))
def test_blocks_give_the_pages_of_their_entries(parts: list[tuple[list[Entry], bool]]) -> None:
    """For any sequence of blocks, the pages have all entries in order."""
    buffer = reply(*(columnar(entries) if is_columns else framed(entries) for entries, is_columns in parts))
    left = [entry for entries, _ in parts for entry in entries]
    found = blocks.blocks(buffer)
    assert [block.count for block in found] == [len(entries) for entries, _ in parts]
    for page in blocks.pages(buffer, found):
        checked(page, left[: page.count])
        del left[: page.count]
    assert not left


@unhurried
@given(one_shape(NUMBERS), st.integers(1, 12))
def test_numbers_are_those_of_their_texts(entries: list[Entry], cut: int) -> None:
    """Numbers read from columns of one or two blocks equal their texts exactly, or the column is declined."""
    halves = [part for part in (entries[:cut], entries[cut:]) if part]
    buffer = reply(*map(columnar, halves))
    (page,) = blocks.pages(buffer, blocks.blocks(buffer))
    for name in {*entries[0][1][::2]}:
        texts = page.column(name).to_pylist()
        whole, real = page.integers(name), page.floats(name)
        assert real is None or real.to_pylist() == [float(text) for text in texts]
        assert whole is None or whole.to_pylist() == [int(text) for text in texts]
        if b"." not in b"".join(texts) and len({len(text) for text in texts}) == 1 and b"-" not in b"".join(texts):
            assert whole is not None
    assert page.integers(b"missing") is None


@unhurried
@given(one_shape(WORDS), st.sets(PLAIN))
def test_fields_that_were_not_sent_have_their_names_alone(entries: list[Entry], names: set[bytes]) -> None:
    """Fields whose values were not requested are listed with their names, next to complete requested columns."""
    buffer = reply(columnar(entries, names))
    (page,) = blocks.pages(buffer, blocks.blocks(buffer))
    data = frames(entries)
    wanted = reference.parse(data, 0, len(data), len(entries))
    for name in names:
        assert page.column(name).to_pylist() == wanted.column(name).to_pylist()
    assert page.fields()[0].to_pylist() == wanted.fields()[0].to_pylist()
    assert page.fields()[1].to_pylist() == wanted.fields()[1].to_pylist()
    pairs = zip(*(part.to_pylist() for part in wanted.fields()[1:]), strict=True)
    assert page.fields()[2].to_pylist() == [value if name in names else None for name, value in pairs]


def test_ids_of_many_entries_are_texts_of_their_numbers() -> None:
    """The text of an ID consists of its two numbers, regardless of repeated milliseconds and large sequence numbers."""
    for ms, seq in (
        (np.arange(500) // 100, np.arange(500) % 100),
        (np.arange(500), np.arange(500) + 9_900),
        (np.full(500, 2**64 - 1, np.uint64), np.arange(500)),
        (np.arange(500), np.full(500, 2**64 - 1, np.uint64)),
    ):
        entries = [(b"%d-%d" % pair, [b"f", b"v"]) for pair in zip(ms.tolist(), seq.tolist(), strict=True)]
        buffer = reply(columnar(entries))
        (page,) = blocks.pages(buffer, blocks.blocks(buffer))
        checked(page, entries)


@pytest.mark.parametrize(
    "data",
    [
        b"*1\r\n*1\r\n:1\r\n",
        b"*1\r\n*2\r\n:0\r\n$0\r\n\r\n",
        b"*1\r\n*2\r\n:1\r\n$-1\r\n",
        b"*1\r\n*2\r\n:1\r\n$99\r\nshort\r\n",
        b"*1\r\n*2\r\n$1\r\n1\r\n$1\r\nx\r\n",
        b"*1\r\n*3\r\n:1\r\n$1\r\nx\r\n$1\r\ny\r\n",
        columnar([(b"1-1", [b"f", b"v"])] * 2).replace(b":2", b":3", 1).join([b"*1\r\n", b""]),
        columnar([(b"1-1", [b"f", b"v"])] * 2).replace(b"$1\r\nf\r\n", b"$-1\r\n").join([b"*1\r\n", b""]),
        columnar([(b"1-1", [b"f", b"v"])] * 2).replace(b"$12\r\n" + bytes(4), b"$8\r\n").join([b"*1\r\n", b""]),
        b":1\r\n",
        b"*1",
    ],
)
def test_an_invalid_reply_is_an_error(data: bytes) -> None:
    """Anything but valid blocks causes an error, never fewer or other entries."""
    with pytest.raises(ValueError):
        blocks.blocks(bytearray(data))


@pytest.mark.parametrize("positions", [[1, 1, 2], [0, 2, 1], [0, 1, 3], [0, -1, 2]])
def test_positions_beyond_their_values_are_refused(positions: list[int]) -> None:
    """Positions outside the values are an error, and never become a column."""
    buffer = reply(
        columnar([(b"1-1", [b"f", b"v"])] * 2).replace(*(np.array(p, "<i4").tobytes() for p in ([0, 1, 2], positions)))
    )
    with pytest.raises(ValueError):
        list(blocks.pages(buffer, blocks.blocks(buffer)))


def test_an_error_reply_is_an_error() -> None:
    """An error reply is raised with the server's text."""
    with pytest.raises(ReplyError, match="NOPERM no"):
        blocks.blocks(bytearray(b"-NOPERM no\r\n"))
