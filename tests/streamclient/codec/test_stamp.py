"""Commands made from templates: they have the bytes of the scalar encoder, or the encoder declines."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streamclient.codec import reference
from streamclient.codec.encode import encode_adds

unhurried = settings(deadline=None)
TEXTS = st.one_of(
    st.integers(-(10**9), 10**9).map(lambda n: b"%d" % n),
    st.sampled_from([b"", b"\r\n", b"x" * 9, b"x" * 10, b"y" * 1234]),
    st.binary(max_size=20),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[bytes]], int]:
    """Generate columns of values, some with values of one length, and the number of rows."""
    count = draw(st.integers(60, 90))
    columns = []
    for _ in range(draw(st.integers(1, 4))):
        chosen = draw(st.lists(TEXTS, min_size=1, max_size=6))
        columns.append([chosen[(row * row) % len(chosen)] for row in range(count)])
    return columns, count


@unhurried
@given(tables(), st.booleans(), st.sampled_from([[], [b"NOMKSTREAM"]]), st.integers(0, 3))
def test_commands_from_templates_equal_those_of_the_scalar_encoder(
    table: tuple[list[list[bytes]], int], own_ids: bool, options: list[bytes], skipped: int
) -> None:
    """Commands have the bytes of the scalar encoder for any values, also if the arrays are slices."""
    values, count = table
    arrays = [pa.array([b"before"] * skipped + column, pa.binary())[skipped:] for column in values]
    columns = [(b"field-%d" % number, array) for number, array in enumerate(arrays)]
    ids = pa.array([b"%d-1" % (7 * row) for row in range(count)], pa.binary()) if own_ids else None
    fast = encode_adds(b"key", ids, columns, None, options, count)
    assert fast.to_pylist() == reference.encode_adds(b"key", ids, columns, None, options, count).to_pylist()
    _, offsets, data = fast.buffers()
    bounds = memoryview(offsets).cast("i")
    assert bytes(data)[bounds[0] : bounds[count]] == b"".join(fast.to_pylist())
