"""Stream IDs: values with a text form."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamwire.stream_id import LAST, ZERO, StreamId, make, parse, parse_many, split, text

unhurried = settings(deadline=None)
NUMBERS = st.integers(0, 2**64 - 1)
IDS = st.builds(StreamId, NUMBERS, NUMBERS)


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


@unhurried
@given(IDS)
def test_an_id_is_an_integer_with_names_for_its_halves(stream_id: StreamId) -> None:
    """It equals the integer that it represents, is always true, and survives pickling and copying."""
    assert stream_id == make(stream_id.ms, stream_id.seq) == parse(text(stream_id))
    assert (stream_id.ms, stream_id.seq) == split(stream_id)
    assert stream_id
    for same in (pickle.loads(pickle.dumps(stream_id)), copy.deepcopy(stream_id), StreamId.of(int(stream_id))):
        assert (type(same), same, f"{same}", repr(same)) == (StreamId, stream_id, str(stream_id), repr(stream_id))


@unhurried
@given(IDS)
def test_the_neighbours_of_an_id_are_one_apart(stream_id: StreamId) -> None:
    """The carry between the halves is included; there is nothing beyond the smallest and the largest ID."""
    assert stream_id.next() - stream_id == (stream_id < LAST)
    assert stream_id - stream_id.before() == (stream_id > ZERO)


@unhurried
@given(st.lists(IDS, min_size=1, max_size=20))
def test_many_ids_are_parsed_as_each_of_them(stream_ids: list[StreamId]) -> None:
    """Plain texts together give the same integers as one by one."""
    assert parse_many(list(map(text, stream_ids))) == stream_ids


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "1-2-3", "a", "1.5", " 1", "18446744073709551616", "1-18446744073709551616"]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    """A text that no stream could have as an ID is a ValueError."""
    with pytest.raises(ValueError):
        StreamId.parse(text)
