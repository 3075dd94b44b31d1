"""PS.COLUMNS: its blocks have the entries of XRANGE over the same range, however the engine stores them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.commands.streams import columns
from engine.core.protocol.replies import NIL_ARRAY, CommandError
from engine.core.streams import packer, segment
from engine.wire.encode import encoded
from tests.engine.core.commands.test_extensions import Client
from tests.engine.core.streams.test_storage import pack_cold

Entry = list[Any]


def parsed(data: bytes) -> Any:
    """Return the single value that these bytes encode."""
    reader = hiredis.Reader()
    reader.feed(data)
    value = reader.gets()
    assert not reader.has_data()
    return value


def entries_of(blocks: list[Any]) -> list[Entry]:
    """Return the entries of decoded blocks in the form of XRANGE's reply, without fields that were not requested."""
    found: list[Entry] = []
    for count, *block in blocks:
        if len(block) == 1:
            found += (here := parsed(b"*%d\r\n%b" % (count, block[0])))
            assert len(here) == count
            continue
        ms, seq = (struct.unpack(f"<{count}Q", column) for column in block[:2])
        rows: list[list[bytes]] = [[] for _ in range(count)]
        for name, positions, values in zip(block[2::3], block[3::3], block[4::3], strict=True):
            if positions is None:
                assert values is None
                continue
            bounds = struct.unpack(f"<{count + 1}i", positions)
            assert (bounds[0], bounds[-1]) == (0, len(values))
            for row, (begin, end) in zip(rows, pairwise(bounds), strict=True):
                row += [name, values[begin:end]]
        found += [[b"%d-%d" % pair, row] for pair, row in zip(zip(ms, seq, strict=True), rows, strict=True)]
    return found


@contextmanager
def small(few: int = 1) -> Iterator[None]:
    """Use segments of a few entries, which are packed as columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "SEGMENT_ENTRIES", 12)
        patch.setattr(packer, "MOST_VALUES", 1)
        patch.setattr(columns, "FEW_ENTRIES", few)
        yield


def with_entries(shapes: list[int], deleted: set[int], trimmed: int, packed: int) -> Client:
    """Return a client of a core with a stream of entries of these shapes, some of them deleted, trimmed or packed."""
    run = Client()
    for number, shape in enumerate(shapes, 1):
        words: tuple[object, ...] = (
            ("f", number, "g", b"\r\n$3\r\n" * (number % 3)),
            ("f", b"", "f", number),
            ("g", number, "f", b"*2"),
            ("f", "v" * (number % 50)),
        )[shape]
        run("XADD", "s", f"{number // 3}-{number}", *words)
    for number in deleted:
        run("XDEL", "s", f"{number // 3}-{number}")
    if trimmed:
        run("XTRIM", "s", "MAXLEN", max(len(shapes) - len(deleted) - trimmed, 0))
    stream = run.core.databases[0].stream(b"s")
    assert stream is not None
    pack_cold(stream, packed, "columns")
    return run


#: The shape of each entry (an index of ``with_entries``), in long and short runs of one shape.
SHAPES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 15, 30])), min_size=1, max_size=8).map(
    lambda parts: [shape for shape, count in parts for _ in range(count)]
)
BOUNDS = st.tuples(st.sampled_from(["", "("]), st.integers(0, 50), st.sampled_from(["", "-9", "-40", "-77"])).map(
    lambda parts: "".join(map(str, parts))
)
LOW, HIGH = st.one_of(st.just("-"), BOUNDS), st.one_of(st.just("+"), BOUNDS)


@given(
    shapes=SHAPES,
    deleted=st.sets(st.integers(1, 150), max_size=20),
    trimmed=st.sampled_from([0, 0, 5, 40]),
    packed=st.sampled_from([0, 3, 99]),
    low=LOW,
    high=HIGH,
    count=st.one_of(st.none(), st.integers(1, 100)),
    few=st.sampled_from([1, 8]),
    proto=st.sampled_from([2, 3]),
)
def test_blocks_have_the_entries_of_xrange(shapes, deleted, trimmed, packed, low, high, count, few, proto):
    """Blocks have XRANGE's entries in order, for any range, even if entries were deleted, trimmed or packed."""
    with small(few):
        run = with_entries(shapes, deleted, trimmed, packed)
        limit = () if count is None else ("COUNT", count)
        wanted = parsed(encoded(run("XRANGE", "s", low, high, *limit), 2))
        blocks = parsed(encoded(run("PS.COLUMNS", "s", low, high, *limit), proto))
    assert entries_of(blocks) == wanted
    assert all(len(block) > 1 and block[0] for block in blocks)


@given(shapes=SHAPES, packed=st.sampled_from([0, 3, 99]), room=st.sampled_from([1, 100, 1000, 10**6]))
def test_a_reader_continues_after_a_reply_limited_by_bytes(shapes, packed, room):
    """Repeated reads with BYTES return every entry once: each reply has at least one entry while entries are left."""
    with small():
        run = with_entries(shapes, {3, 4, 20}, 1, packed)
        found: list[Entry] = []
        after, sizes = "-", []
        while blocks := parsed(encoded(run("PS.COLUMNS", "s", after, "+", "BYTES", room, "COUNT", 50), 2)):
            found += (more := entries_of(blocks))
            after = f"({more[-1][0].decode()}"
            sizes.append(len(more))
        assert found == parsed(encoded(run("XRANGE", "s", "-", "+"), 2))
        assert max(sizes, default=0) <= 50


@given(names=st.sets(st.sampled_from(["f", "g", "h"])))
def test_only_requested_fields_are_sent(names):
    """With FIELDS, other columns are sent without values; entries that are stored as frames are sent whole."""
    with small():
        run = with_entries([0] * 60 + [2] * 30, set(), 0, 4)
        blocks = parsed(encoded(run("PS.COLUMNS", "s", "-", "+", "FIELDS", len(names), *sorted(names)), 2))
        whole = parsed(encoded(run("XRANGE", "s", "-", "+"), 2))
        keep = {name.encode() for name in names}
        columns = sum(block[0] for block in blocks if len(block) > 2)
        assert columns == 48
        for block in blocks[:4]:
            assert block[3::3] == [b"f", b"g"]
        for entry in whole[:columns]:
            entry[1] = [word for at, word in enumerate(entry[1]) if entry[1][at - at % 2] in keep]
        assert entries_of(blocks) == whole


def test_errors_are_those_of_xrange():
    """A missing key, a wrong type, invalid IDs and invalid limits get XRANGE's replies."""
    run = Client()
    run("SET", "text", "x")
    run("XADD", "s", "1-1", "f", "v")
    assert run("PS.COLUMNS", "none", "-", "+", "COUNT", 0) == []
    assert run("PS.COLUMNS", "s", "-", "+", "COUNT", 0) is NIL_ARRAY
    assert run("PS.COLUMNS", "s", "-", "+", "COUNT", -1) is NIL_ARRAY
    assert run("PS.COLUMNS", "s", "2", "+") == []
    for words in (
        ("text", "-", "+"),
        ("s", "x", "+"),
        ("s", "-", "(0-0"),
        ("s", "(18446744073709551615-18446744073709551615", "+"),
        ("s", "-", "+", "COUNT"),
        ("s", "-", "+", "COUNT", "x"),
        ("s", "-", "+", "SOME"),
    ):
        assert run("PS.COLUMNS", *words).args == run("XRANGE", *words).args
    for words in (("BYTES", 0), ("BYTES", "x"), ("FIELDS", 2, "f"), ("FIELDS", -1), ("FIELDS", 0, "f"), ("FIELDS",)):
        assert type(run("PS.COLUMNS", "s", "-", "+", *words)) is CommandError
    (columns,) = run("COMMAND", "INFO", "PS.COLUMNS")
    (xrange,) = run("COMMAND", "INFO", "XRANGE")
    assert (columns[1], columns[2:6]) == (-4, xrange[2:6])
