"""The columnar codec: the vectorised functions against their scalar twins, on arbitrary entries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.columns import conversion
from streamclient.codec import decode, reference
from streamclient.codec.encode import encode_adds
from streamclient.codec.reply import Page
from streamwire import frames as wire_frames

unhurried = settings(deadline=None)
HEAD, SLACK = b"*12\r\n", bytes(16)

WORDS = st.one_of(
    st.sampled_from(
        [b"a", b"b", b"", b"name", b"*2", b"$3", b"\r\n", b"x\r\n$1\r\ny", b"\n", b"\r", b"\xff\xfe", b"\xc3\xa9"]
    ),
    st.binary(max_size=12),
)
IDS = st.builds(
    lambda ms, seq: b"%d-%d" % (ms, seq),
    st.one_of(st.integers(10**12, 10**13 - 1), st.integers(0, 2**64 - 1)),
    st.one_of(st.just(0), st.integers(0, 2**64 - 1)),
)
PLAIN = st.sampled_from([b"a", b"b", b"c", b"", b"12", b"*4"])


def entries_of(words: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[tuple[bytes, list[bytes]]]]:
    pairs = st.lists(st.tuples(words, words), min_size=1, max_size=4)
    return st.lists(st.tuples(IDS, pairs.map(lambda p: [w for pair in p for w in pair])), min_size=1, max_size=12)


def one_shape(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[tuple[bytes, list[bytes]]]]:
    """Generate entries with the same fields."""
    names = st.lists(st.one_of(PLAIN, st.sampled_from([b"temperature", b"n*", b"x\r\ny"])), min_size=1, max_size=3)
    return names.flatmap(
        lambda ns: st.lists(
            st.tuples(
                IDS,
                st.lists(values, min_size=len(ns), max_size=len(ns)).map(
                    lambda vs: [w for pair in zip(ns, vs, strict=True) for w in pair]
                ),
            ),
            min_size=1,
            max_size=12,
        )
    )


#: Values of one producer: numbers, most of them short.
USUAL = st.one_of(
    st.integers(0, 99999).map(lambda n: b"%d" % n),
    st.integers(-(10**9), 10**9).map(lambda n: b"%d" % n),
    st.decimals(-9999, 9999, places=2).map(lambda d: str(d).encode()),
)
#: Texts that are almost numbers.
ODD = st.one_of(
    st.integers(-9_999_999, 99_999_999).map(str),
    st.decimals(-9999, 9999, places=3).map(str),
    st.sampled_from(
        ["-", ".", "-.", "1.", ".5", "-.5", "--1", "1.2.3", "+1", "1e5", "0x1", "", "-0", "-0.0", "00", "1 "]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8),
).map(str.encode)
ENTRIES = st.one_of(entries_of(WORDS), entries_of(PLAIN), *map(one_shape, (WORDS, USUAL, ODD)))


def frames(entries: list[tuple[bytes, list[bytes]]]) -> bytes:
    def bulk(word: bytes) -> bytes:
        return b"$%d\r\n%b\r\n" % (len(word), word)

    return b"".join(
        b"*2\r\n" + bulk(entry_id) + b"*%d\r\n" % len(pairs) + b"".join(map(bulk, pairs)) for entry_id, pairs in entries
    )


def seen(page: Page, names: list[bytes]) -> dict[str, object]:
    return {
        "count": page.count,
        "last": page.last_id(),
        "ids": page.ids().to_pylist(),
        "some ids": (page.id_texts(), page.id_texts(slice(1, None, 2))),
        "ms": page.milliseconds().to_pylist(),
        "seq": page.sequences().to_pylist(),
        "columns": {name: page.column(name).to_pylist() for name in names},
        "fields": [part.to_pylist() for part in page.fields()],
    }


@pytest.fixture(autouse=True, scope="module")
def however_few() -> Iterator[None]:
    """Let the vectorised functions accept even a few entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_frames, "FEWEST", 0)
        yield


@unhurried
@given(ENTRIES, st.sampled_from([b"\r\n", b"x\r\n", b"", b"\n", b"\rx"]))
def test_both_halves_read_the_same_columns(entries: list[tuple[bytes, list[bytes]]], before: bytes) -> None:
    """For any entries, the vectorised decoder returns the parser's columns, and numbers equal to their texts, or
    declines.
    """
    buffer = before + frames(entries) + SLACK
    end = len(buffer) - len(SLACK)
    names = [b"a", b"b", b"", b"missing"]
    slow = reference.parse(buffer, len(before), end, len(entries))
    expected = seen(slow, names)
    page = decode.scan(buffer, len(before), end, len(entries))
    if page is not None:
        assert seen(page, names) == expected
        for name in names:
            for numbers, kind in ((page.integers(name), pa.int64()), (page.floats(name), pa.float64())):
                if numbers is not None:
                    texts = conversion.from_text(slow.column(name), kind).to_pylist()
                    assert list(map(repr, numbers.to_pylist())) == list(map(repr, texts))
    assert seen(decode.decode_page(buffer, len(before), end, len(entries)), names) == expected


@unhurried
@given(entries_of(PLAIN))
def test_values_without_line_feeds_are_always_vectorised(entries: list[tuple[bytes, list[bytes]]]) -> None:
    """The vectorised decoder accepts entries with any mix of fields if no value contains a line feed."""
    buffer = HEAD + frames(entries) + SLACK
    assert decode.scan(buffer, len(HEAD), len(buffer) - len(SLACK), len(entries)) is not None


@unhurried
@given(ENTRIES, st.data())
def test_a_damaged_buffer_is_never_misread(entries: list[tuple[bytes, list[bytes]]], data: st.DataObject) -> None:
    """A buffer with changed, removed or inserted bytes is declined, or read as the parser reads it."""
    buffer = bytearray(frames(entries))
    for _ in range(data.draw(st.integers(1, 3))):
        at, how = data.draw(st.integers(0, len(buffer) - 1)), data.draw(st.integers(0, 2))
        octet = st.one_of(st.sampled_from([b"\n", b"*", b"9", b"$", b"x"]), st.binary(min_size=1, max_size=1))
        buffer[at : at + (how < 2)] = b"" if how == 0 else data.draw(octet)
    page = decode.scan(HEAD + buffer + SLACK, len(HEAD), len(HEAD) + len(buffer), len(entries))
    if page is not None:
        assert seen(page, [b"a"]) == seen(reference.parse(buffer, 0, len(buffer), len(entries)), [b"a"])


def test_a_wrong_count_is_declined_and_then_refused() -> None:
    """A header with a wrong number of entries causes an error, not fewer or more rows."""
    buffer = frames([(b"1-1", [b"a", b"b"])] * 3)
    for count in (1, 2, 4):
        with pytest.raises(ValueError):
            decode.decode_page(buffer, 0, len(buffer), count)


def encoded_slowly(key: bytes, ids: Any, columns: Any, fields: Any, rows: int) -> list[bytes | None]:
    """Return the result of `encode_adds`, built value by value."""
    id_list = [b"*"] * rows if ids is None else [b"*" if value is None else value for value in ids.to_pylist()]
    lists = [(name, values.to_pylist()) for name, values in columns]
    offsets, names, values = (part.to_pylist() for part in fields) if fields is not None else ([0] * (rows + 1), [], [])
    commands: list[bytes | None] = []
    for row in range(rows):
        pairs = [word for name, column in lists if column[row] is not None for word in (name, column[row])]
        pairs += [word for at in range(offsets[row], offsets[row + 1]) for word in (names[at], values[at])]
        words = [b"XADD", key, id_list[row], *pairs]
        command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        commands.append(command if pairs else None)
    return commands


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Generate arguments of `encode_adds`: few rows of any values, or many rows of few values without nulls."""
    is_large = draw(st.booleans())
    rows = draw(st.integers(60, 90) if is_large else st.integers(0, 8))
    skipped = draw(st.integers(0, 3))

    def column(of: st.SearchStrategy[bytes | None]) -> Any:
        found = draw(st.lists(of, min_size=1 if is_large else rows, max_size=6 if is_large else rows))
        if is_large:
            found = [found[(row * row) % len(found)] for row in range(rows)]
        return pa.array([b"before"] * skipped + found, pa.binary())[skipped:]

    values = st.one_of(WORDS, st.sampled_from([b"x" * 10, b"y" * 1234]))
    nullable = values if is_large else st.one_of(st.none(), values)
    maps = draw(st.lists(st.dictionaries(WORDS, WORDS, max_size=3), min_size=rows, max_size=rows)) if rows < 9 else []
    fields = (
        pa.array([0, *accumulate(map(len, maps))], pa.int32()),
        pa.array([name for fields_of_row in maps for name in fields_of_row], pa.binary()),
        pa.array([value for fields_of_row in maps for value in fields_of_row.values()], pa.binary()),
    )
    return {
        "key": draw(WORDS),
        "ids": draw(st.one_of(st.none(), st.just(column(IDS if is_large else st.one_of(st.none(), IDS))))),
        "columns": [(draw(WORDS), column(nullable)) for _ in range(draw(st.integers(0, 3)))],
        "fields": None if is_large else draw(st.sampled_from([None, fields])),
        "rows": rows,
    }


@unhurried
@given(tables())
def test_commands_are_those_of_the_scalar_encoder(table: dict[str, Any]) -> None:
    """Commands have the bytes of the scalar encoder, one after the other, and are null for rows without fields."""
    found = encode_adds(**table)
    assert found.to_pylist() == encoded_slowly(**table)
    if found.null_count == 0 and table["rows"]:
        _, offsets, data = found.buffers()
        bounds = memoryview(offsets).cast("i")
        assert bytes(data)[bounds[0] : bounds[table["rows"]]] == b"".join(found.to_pylist())
