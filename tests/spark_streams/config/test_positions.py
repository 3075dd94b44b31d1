"""Positions in options: start and end of a query."""

from __future__ import annotations

import pytest

from spark_streams.config import options, positions
from spark_streams.errors import OptionsError
from streamwire.stream_id import LAST, U64_MAX, ZERO, StreamId


@pytest.mark.parametrize(
    ("text", "end", "after"),
    [
        ("5-3", False, StreamId(5, 2)),
        ("5", False, StreamId(4, U64_MAX)),
        ("(5-3", False, StreamId(5, 3)),
        ("(5", False, StreamId(5, 0)),
        ("0", False, ZERO),
        ("5-3", True, StreamId(5, 3)),
        ("5", True, StreamId(5, U64_MAX)),
        ("(5-3", True, StreamId(5, 2)),
        ("(5", True, StreamId(5, U64_MAX - 1)),
        ("18446744073709551615-18446744073709551615", True, LAST),
    ],
)
def test_positions_are_read_as_xrange_reads_them(text: str, end: bool, after: StreamId) -> None:
    """As in XRANGE, IDs are inclusive, `(` makes them exclusive, and a missing sequence number is the lowest in a start
    and the highest in an end.
    """
    parse = positions.parse_end if end else positions.parse_start
    assert parse(text, ("s",)).of("s").after == after


def test_positions_for_each_stream() -> None:
    """A JSON object gives each stream its own position."""
    parsed = positions.parse_start('{"a": "earliest", "b": "7-1"}', ("a", "b"))
    assert parsed.of("a").kind == "earliest"
    assert parsed.of("b").after == StreamId(7, 0)


@pytest.mark.parametrize(
    "text", ["", "soon", "{", '{"a": "earliest"}', '{"a": "1", "b": "2", "c": "3"}', '{"a": "x", "b": "1"}']
)
def test_invalid_positions_are_rejected(text: str) -> None:
    """Malformed positions, and JSON with more or fewer streams than the query, are errors that name the option."""
    with pytest.raises(OptionsError, match="startingOffsets"):
        options.read_options({"streams": "a,b", "startingOffsets": text})


@pytest.mark.parametrize(
    ("text", "end", "kind"),
    [("-", False, "earliest"), ("$", False, "latest"), ("$", True, "latest"), ("+", True, "latest")],
)
def test_signs_of_commands_are_accepted(text: str, end: bool, kind: str) -> None:
    """`-`, `$` and `+` have the meaning that they have in XRANGE and XREAD."""
    parse = positions.parse_end if end else positions.parse_start
    assert parse(text, ("s",)).of("s").kind == kind


def test_positions_with_partitions_are_rejected() -> None:
    """Kafka's JSON with partitions is an error with the correct form."""
    with pytest.raises(OptionsError, match=r'startingTimestamp.* no partitions, so write \{"a": \.\.\.'):
        options.read_options({"subscribe": "a", "startingOffsetsByTimestamp": '{"a": {"0": 1000}}'})


@pytest.mark.parametrize("text", ["2024", "2024-06", "20240601", "(2024-06"])
@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"])
def test_dates_are_never_taken_for_ids_or_milliseconds(option: str, text: str) -> None:
    """A year, a month, or a date without dashes is an error, not a time in January 1970."""
    with pytest.raises(OptionsError, match=option):
        options.read_options({"stream": "a", option: text})
