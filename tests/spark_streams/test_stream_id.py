"""Stream IDs: values with a text form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.stream_id import ZERO, StreamId

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


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "1-2-3", "a", "1.5", " 1", "18446744073709551616", "1-18446744073709551616"]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    """A text that no stream could have as an ID is a ValueError."""
    with pytest.raises(ValueError):
        StreamId.parse(text)
