"""The order of tests for the processes of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.suite.order import arranged


def item(name: str, spark: bool = False, slow: bool = False) -> Any:
    return SimpleNamespace(
        name=name, fixturenames=["spark"] if spark else [], get_closest_marker=lambda mark: slow or None
    )


@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 4, 40])
def test_long_tests_are_first_in_the_parts(processes: int, count: int) -> None:
    """Every test is included once; tests with Spark start the first part, and slow tests start the other parts."""
    shared = [item(f"spark{n}", spark=True) for n in range(min(count, 4))]
    slow = [item(f"slow{n}", slow=True) for n in range(count // 4)]
    short = [item(f"short{n}") for n in range(count)]
    items = [each for n in range(count) for group in (short, slow, shared) for each in group[n : n + 1]]
    order = arranged(items, processes)
    assert sorted(each.name for each in order) == sorted(each.name for each in items)
    if count == 40:
        assert order[: len(shared)] == shared
        start = 0
        for left in range(processes, 1, -1):  # Split the list as xdist does.
            start += (len(items) - start) // left
            assert order[start].name.startswith("slow")
        assert [each for each in order if each in short] == short
