"""Stream IDs as values and as texts."""

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
    """An ID that is written as text and parsed again is unchanged."""
    assert StreamId.parse(str(stream_id)) == stream_id == StreamId.parse(str(stream_id).encode())


@unhurried
@given(IDS)
def test_an_id_is_an_integer_with_names_for_its_halves(stream_id: StreamId) -> None:
    """An ID equals the integer that it represents, is always truthy, and survives pickling and copying."""
    assert stream_id == make(stream_id.ms, stream_id.seq) == parse(text(stream_id))
    assert (stream_id.ms, stream_id.seq) == split(stream_id)
    assert stream_id
    for same in (pickle.loads(pickle.dumps(stream_id)), copy.deepcopy(stream_id), StreamId.of(int(stream_id))):
        assert (type(same), same, f"{same}", repr(same)) == (StreamId, stream_id, str(stream_id), repr(stream_id))


@unhurried
@given(IDS)
def test_the_neighbours_of_an_id_are_one_apart(stream_id: StreamId) -> None:
    """Neighbours carry between the two halves; the smallest ID has no predecessor, and the largest no successor."""
    assert stream_id.next() - stream_id == (stream_id < LAST)
    assert stream_id - stream_id.before() == (stream_id > ZERO)


@unhurried
@given(st.lists(IDS, min_size=1, max_size=20))
def test_many_ids_are_parsed_as_each_of_them(stream_ids: list[StreamId]) -> None:
    """IDs parsed together give the same integers as IDs parsed one by one."""
    assert parse_many(list(map(text, stream_ids))) == stream_ids


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "1-2-3", "a", "1.5", " 1", "18446744073709551616", "1-18446744073709551616"]
)
def test_an_invalid_id_is_refused(text: str) -> None:
    """A text that cannot be a stream's ID raises ValueError."""
    with pytest.raises(ValueError):
        StreamId.parse(text)
