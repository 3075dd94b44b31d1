"""Division of ranges: counted cuts are exact, and sampled cuts are close to equal, for streams of any shape."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamclient.streams import counting
from streamwire.stream_id import ZERO, StreamId

unhurried = settings(deadline=None)


@unhurried
@given(st.integers(1, 500), st.integers(1, 20), st.one_of(st.none(), st.integers(1, 200)), st.integers(1, 9))
def test_counted_cuts_are_exact(total: int, parts: int, most: int | None, grid: int) -> None:
    """Cuts are in order, their sizes are correct and add up, none exceeds the limit, and they are nearly equal."""
    grid = grid if most is None else min(grid, most)
    ids = [StreamId(n + 1, 0) for n in range(total)]
    upto = StreamId(total + 50, 0)
    cuts = counting.cut(ids[grid - 1 :: grid], grid, total, upto, parts, most)
    ends = [end for end, _ in cuts]
    assert ends == sorted(set(ends))
    assert ends[-1] == upto
    after = ZERO
    for end, size in cuts:
        assert size == bisect_right(ids, end) - bisect_right(ids, after)
        assert size is not None
        assert size > 0
        assert most is None or size <= most
        after = end
    if most is None:
        assert all(abs((size or 0) - total / len(cuts)) <= 2 * grid + total / len(cuts) for _, size in cuts)
        if grid == 1 and parts <= total:
            assert len(cuts) == parts


STREAMS = {
    "even": [StreamId(1000 + 7 * n, 0) for n in range(20_000)],
    "one millisecond": [StreamId(5, n) for n in range(20_000)],
    "bursts": [StreamId(1000 + 50 * (n // 400), n % 400) for n in range(20_000)],
    "ever denser": [StreamId(1000 + int((20_000 - n) ** 2 * -0.01 + 4_000_000), n) for n in range(20_000)],
    "few": [StreamId(1000 + 1000 * n, 0) for n in range(10)],
    "one": [StreamId(1000, 0)],
    "none": [],
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("parts", [2, 4, 7])
def test_sampled_cuts_are_near(name: str, parts: int) -> None:
    """Sampled ranges are disjoint and complete, and none has more than two and a half times its share of a large
    stream.
    """
    ids = STREAMS[name]
    after = ids[0].before() if ids else ZERO
    upto = ids[-1] if ids else StreamId(9, 0)
    probes = counting.probes(after, upto, parts)
    windows = [ids[bisect_right(ids, at.before()) :][: counting.WINDOW] for at in probes]
    ends = counting.estimated(probes, windows, upto, parts)
    assert ends[-1] == upto
    assert ends == sorted(set(ends))
    assert len(ends) <= parts
    sizes = [
        bisect_right(ids, end) - bisect_right(ids, start) for start, end in zip([after, *ends], ends, strict=False)
    ]
    assert sum(sizes) == len(ids)
    if len(ids) > 1000:
        assert max(sizes) <= 2.5 * len(ids) / parts
