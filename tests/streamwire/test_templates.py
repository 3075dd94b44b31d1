"""Rows made from templates, against rows joined one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamwire.templates import Templates, Values

WORDS = st.one_of(st.binary(max_size=12), st.sampled_from([b"", b"x" * 9, b"y" * 10, b"z" * 100, b"\r\n"]))


def values_of(words: list[bytes]) -> Values:
    """Return the words as values of a buffer with gaps between them."""
    lengths = np.array(list(map(len, words)))
    starts = np.cumsum(lengths + 3) - lengths
    data = b"".join(b"..." + word for word in words) + b"..."
    return Values(np.frombuffer(data, np.uint8), starts, lengths)


@given(st.lists(st.tuples(WORDS, WORDS, st.binary(min_size=4, max_size=4)), min_size=1, max_size=20), st.booleans())
def test_rows_are_their_parts_one_after_the_other(rows, alike) -> None:
    """Texts, values of one size, and bulk strings of any length are written in order, row by row."""
    if alike:
        rows = [rows[0]] * len(rows)
    first, second, fixed = (list(column) for column in zip(*rows, strict=True))
    templates = Templates()
    templates.text(b"<")
    templates.bulk(b"a$", values_of(first))
    templates.fixed(values_of(fixed), 4)
    templates.bulk(b"b$", values_of(second))
    templates.text(b">")
    data, bounds = templates.rows(len(rows))
    expected = [b"<a$%d\r\n%b\r\n%bb$%d\r\n%b\r\n>" % (len(a), a, c, len(b), b) for a, b, c in rows]
    assert [bytes(data[low:high]) for low, high in pairwise(bounds)] == expected
