"""Positions in a replication history, as stored in files; nothing else is read as a position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.formats.damage import DamagedError
from engine.shell.durability.log import TornError, head, pieces
from engine.shell.durability.position import LINE_SIZE, Position, from_about, from_packed, line_at

POSITIONS = st.builds(
    Position,
    st.text("0123456789abcdef", min_size=40, max_size=40).map(str.encode).filter(lambda digits: digits.strip(b"0")),
    st.integers(0, (1 << 48) - 1),
    st.integers(0, (1 << 16) - 1),
)


@given(POSITIONS, st.integers(0, 1 << 40))
def test_a_position_is_restored(position, offset):
    """A position is restored from the fields of an RDB file and from a snapshot's header; its line has a fixed size."""
    assert from_about(position.about) == position
    assert from_packed(position.packed) == position
    assert len(position.line(offset)) == LINE_SIZE


def test_a_position_too_large_for_a_header_is_left_out():
    """A position with numbers too large for a snapshot's header is left out, not truncated."""
    assert from_packed(Position(b"a" * 40, 1 << 48, 0).packed) is None
    assert from_packed(Position(b"a" * 40, 1, 1 << 16).packed) is None


@pytest.mark.parametrize(
    "about",
    [
        {},
        {b"repl-id": b"a" * 40, b"repl-offset": b"5"},
        {b"repl-id": b"a" * 39, b"repl-offset": b"5", b"repl-stream-db": b"0"},
        {b"repl-id": b"A" * 40, b"repl-offset": b"5", b"repl-stream-db": b"0"},
        {b"repl-id": b"a" * 40, b"repl-offset": b"-1", b"repl-stream-db": b"0"},
        {b"repl-id": b"a" * 40, b"repl-offset": b"5", b"repl-stream-db": b"-1"},
        {b"repl-id": b"a" * 40, b"repl-offset": b"9" * 30, b"repl-stream-db": b"0"},
    ],
)
def test_invalid_fields_are_no_position(about):
    """If a field is missing or invalid, the file has no position."""
    assert from_about(about) is None


@given(POSITIONS, st.integers(0, LINE_SIZE - 1), st.data())
def test_a_position_in_a_log(position, at, data):
    """Readers of blocks skip a line with a position; a partial line is torn; a changed or moved line is no position."""
    block = head(0, b"*1\r\n") + b"*1\r\n"
    file = block + position.line(len(block))
    longer = file + head(len(file), b"*2\r\n") + b"*2\r\n"
    assert [longer[piece.start : piece.end] for piece in pieces(memoryview(longer))] == [b"*1\r\n", b"*2\r\n"]
    assert line_at(memoryview(file), len(block)) == position
    assert line_at(memoryview(file), len(block) - 1) is None
    assert line_at(memoryview(position.line(len(block))), 0) is None
    if at:
        with pytest.raises(TornError) as caught:
            list(pieces(memoryview(file[: len(block) + at])))
        assert caught.value.offset == len(block)
    changed = bytearray(file)
    changed[len(block) + at] ^= data.draw(st.integers(1, 255))
    assert line_at(memoryview(bytes(changed)), len(block)) is None
    if changed[len(block)] != ord("*"):  # it would start a command without a checksum
        with pytest.raises((DamagedError, TornError)):
            list(pieces(memoryview(bytes(changed))))
