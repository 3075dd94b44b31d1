"""Digests of rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_streams.write.digest import row_hashes

VALUES = st.one_of(
    st.none(), st.binary(max_size=20), st.sampled_from([b"", b"\0", b"x" * 2048, b"x" * 2049, b"x" * 5000])
)
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=9)


def hashes_of(rows: list[tuple[bytes | None, ...]]) -> list[int]:
    """Return the hashes of rows with the fields a and b and an ID."""
    first, second, ids = (pa.array([row[at] for row in rows], pa.binary()) for at in range(3))
    found: list[int] = row_hashes([(b"a", first), (b"b", second)], None, ids, len(rows)).tolist()
    return found


@given(ROWS)
def test_a_rows_hash_depends_on_the_row_alone(rows):
    """The hash of a row depends only on the row, not on its position or neighbours, and different rows have different
    hashes.
    """
    found = hashes_of(rows)
    assert found == [hashes_of([row])[0] for row in rows]
    assert found == hashes_of([*rows, (b"y" * 9000, b"", None)])[: len(rows)]
    assert found == hashes_of([(None, b"z", b"1-1"), *rows])[1:]
    assert len(set(found)) == len(set(rows))


@given(ROWS)
def test_fields_hash_the_same_from_columns_and_from_a_map(rows):
    """Fields in columns and fields in a map, in any order, have the same hash."""
    in_map = [[pair for pair in zip((b"b", b"a"), row[1::-1], strict=True) if pair[1] is not None] for row in rows]
    offsets = [0]
    for pairs in in_map:
        offsets.append(offsets[-1] + len(pairs))
    names, values = (pa.array([pair[at] for pairs in in_map for pair in pairs], pa.binary()) for at in range(2))
    ids = pa.array([row[2] for row in rows], pa.binary())
    found = row_hashes([], (pa.array(offsets, pa.int32()), names, values), ids, len(rows)).tolist()
    assert found == hashes_of(rows)
