"""Digests: a row's hash depends on its bytes alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_streams.write.rows.digest import row_hashes


@given(rows=st.lists(st.binary(min_size=8, max_size=40), max_size=9), long=st.booleans())
@settings(deadline=None)
def test_a_rows_hash_depends_on_the_row_alone(rows: list[bytes], long: bool) -> None:
    """The hash of a row is the same wherever it stands and whatever stands beside it; other rows have others."""
    rows = [row * (200 if long else 1) for row in rows]

    def together(rows: list[bytes]) -> list[int]:
        bounds = [sum(map(len, rows[:at])) for at in range(len(rows) + 1)]
        found: list[int] = row_hashes(memoryview(b"".join(rows)), bounds).tolist()
        return found

    found = together(rows)
    assert found == [together([row])[0] for row in rows]
    assert found == together([*rows, b"x" * 9000])[: len(rows)]
    assert len(set(found)) == len(set(rows))
