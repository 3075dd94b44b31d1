"""LREM, by single removals or by building a new list, against a simple implementation of its definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.replay import NOW_US, new_core


def removed(items: list[bytes], count: int, element: bytes) -> list[bytes]:
    """Return the remaining items by LREM's definition."""
    left = [*items] if count >= 0 else items[::-1]
    for _ in range(abs(count) or len(items)):
        if element in left:
            left.remove(element)
    return left if count >= 0 else left[::-1]


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=60), st.integers(-12, 12))
def test_lrem_removes_the_right_elements(items, count):
    """LREM removes few, many or all matching elements from either end and returns their number."""
    core = new_core()
    session = core.open_session(NOW_US)
    core.execute(session, [b"RPUSH", b"l", *items], NOW_US)
    left = removed(items, count, b"a")
    assert core.execute(session, [b"LREM", b"l", b"%d" % count, b"a"], NOW_US) == len(items) - len(left)
    assert core.execute(session, [b"LRANGE", b"l", b"0", b"-1"], NOW_US) == left
