"""Where a query begins and ends: positions as options say them."""

from __future__ import annotations

import pytest

from spark_streams.config import options, positions
from spark_streams.errors import OptionsError
from spark_streams.stream_id import LARGEST_SEQ, LAST, ZERO, StreamId


@pytest.mark.parametrize(
    ("text", "end", "after"),
    [
        ("5-3", False, StreamId(5, 2)),
        ("5", False, StreamId(4, LARGEST_SEQ)),
        ("(5-3", False, StreamId(5, 3)),
        ("(5", False, StreamId(5, 0)),
        ("0", False, ZERO),
        ("5-3", True, StreamId(5, 3)),
        ("5", True, StreamId(5, LARGEST_SEQ)),
        ("(5-3", True, StreamId(5, 2)),
        ("(5", True, StreamId(5, LARGEST_SEQ - 1)),
        ("18446744073709551615-18446744073709551615", True, LAST),
    ],
)
def test_positions_are_read_as_xrange_reads_them(text: str, end: bool, after: StreamId) -> None:
    """IDs are inclusive, `(` excludes, and a missing sequence number is completed by the end it stands at."""
    parse = positions.parse_end if end else positions.parse_start
    assert parse(text, ("s",)).of("s").after == after


def test_positions_for_each_stream() -> None:
    """JSON gives each stream its own position."""
    parsed = positions.parse_start('{"a": "earliest", "b": "7-1"}', ("a", "b"))
    assert parsed.of("a").kind == "earliest"
    assert parsed.of("b").after == StreamId(7, 0)


@pytest.mark.parametrize(
    "text", ["", "soon", "{", '{"a": "earliest"}', '{"a": "1", "b": "2", "c": "3"}', '{"a": "x", "b": "1"}']
)
def test_positions_that_say_nothing_are_refused(text: str) -> None:
    """A position that cannot be understood, or not for every stream, is an error that names the option."""
    with pytest.raises(OptionsError, match="startingOffsets"):
        options.read_options({"streams": "a,b", "startingOffsets": text})
