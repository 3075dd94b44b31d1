"""Stream IDs, offsets and positions: values with a text form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.config import options, positions
from spark_streams.errors import OptionsError, StreamError
from spark_streams.read.offsets import VERSION, Offsets, SharedBatch
from spark_streams.stream_id import LARGEST_SEQ, LAST, ZERO, StreamId

unhurried = settings(deadline=None)
NUMBERS = st.integers(0, 2**64 - 1)
IDS = st.builds(StreamId, NUMBERS, NUMBERS)
GOLDEN = sorted(Path(__file__).parent.glob("offsets_v*.json"))


@unhurried
@given(IDS)
def test_an_id_is_its_text(stream_id: StreamId) -> None:
    """An ID that is written and read again is the same."""
    assert StreamId.parse(str(stream_id)) == stream_id == StreamId.parse(str(stream_id).encode())


@unhurried
@given(IDS, IDS)
def test_nothing_lies_between_an_id_and_the_one_before(one: StreamId, other: StreamId) -> None:
    """Whatever is smaller than an ID is at most the one before it."""
    if one > ZERO:
        assert one.before() < one
        assert (other < one) == (other <= one.before())


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "1-2-3", "a", "1.5", " 1", "18446744073709551616", "1-18446744073709551616"]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    """A text that no stream could have as an ID is a ValueError."""
    with pytest.raises(ValueError):
        StreamId.parse(text)


@unhurried
@given(st.dictionaries(st.text(), IDS))
def test_offsets_survive_the_checkpoint(streams: dict[str, StreamId]) -> None:
    """Offsets written as JSON and read again are equal, and equal offsets have equal texts."""
    offsets = Offsets(streams)
    text = json.dumps(offsets.to_json())
    assert Offsets.from_json(json.loads(text)) == offsets
    assert json.dumps(Offsets(dict(reversed(streams.items()))).to_json()) == text


FLIGHTS = {"flights": StreamId(1795163372693, 12), "weather": ZERO}
MEANT = {
    "offsets_v1": Offsets(FLIGHTS),
    "offsets_v2": Offsets(
        FLIGHTS,
        added={"flights": 336776, "weather": 0},
        deleted={"flights": StreamId(1795163372700, 0)},
        cuts={"flights": ((StreamId(1795163372000, 0), 500), (StreamId(1795163372693, 12), None))},
        begins={"weather": ZERO},
        lost={"flights": 3},
    ),
    "offsets_v2_shared": Offsets(
        {}, shared=SharedBatch(8, 5, reads={"flights": (500, 500), "weather": (0,)}, claims={"weather": 12})
    ),
}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_offsets_of_every_version_are_read(path: Path) -> None:
    """The golden file of each version is read by today's code, and those of today's version are what it writes."""
    golden = json.loads(path.read_text())
    assert Offsets.from_json(golden) == MEANT[path.stem]
    if golden["version"] == VERSION:
        assert MEANT[path.stem].to_json() == golden


def test_every_version_has_a_golden_file() -> None:
    """No version is without one, today's included."""
    assert {json.loads(path.read_text())["version"] for path in GOLDEN} == set(range(1, VERSION + 1))
    assert {path.stem for path in GOLDEN} == set(MEANT)


@pytest.mark.parametrize(
    ("offset", "condition"),
    [
        ({"version": VERSION + 1, "streams": {}}, "OFFSET_VERSION"),
        ({}, "OFFSET_MALFORMED"),
        ({"version": 1}, "OFFSET_MALFORMED"),
        ({"version": 1, "streams": []}, "OFFSET_MALFORMED"),
        ({"version": 1, "streams": {"a": "x"}}, "OFFSET_MALFORMED"),
        ({"version": 0, "streams": {}}, "OFFSET_MALFORMED"),
        ({"version": 2, "streams": {}, "cuts": {"a": ["1-1"]}}, "OFFSET_MALFORMED"),
        ({"version": 2, "streams": {}, "shared": {}}, "OFFSET_MALFORMED"),
    ],
)
def test_offsets_of_another_kind_are_refused(offset: dict[str, object], condition: str) -> None:
    """An offset that this source has not written is an error that says so, never a position."""
    with pytest.raises(StreamError) as caught:
        Offsets.from_json(offset)
    assert caught.value.condition == condition


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
