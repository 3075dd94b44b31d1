"""The number of entries per page, derived from the sizes of entries."""

from __future__ import annotations

import pytest

from streamclient.streams.page_size import PageSize

MB = 1 << 20


@pytest.mark.parametrize(
    ("entry", "entries"),
    [(100, 10_000), (1000, 1048), (10_000, 256), (25_000, 256), (250_000, 33), (8 * MB, 1), (100 * MB, 1)],
)
def test_wide_entries_share_what_a_page_costs(entry: int, entries: int) -> None:
    """A page of entries with many fields has a megabyte or 256 entries, whichever is larger. Its maximum is eight
    megabytes or one entry.
    """
    size = PageSize(10_000)
    for _ in range(3):
        size.update(size.now, size.now * entry, fields=1000)
    assert size.now == entries
    assert size.now * entry <= 8 * MB or entries == 1
    assert size.bytes <= 8 * MB


@pytest.mark.parametrize(("entry", "entries"), [(1000, 1048), (10_000, 104), (600_000, 1), (100 * MB, 1)])
def test_large_values_share_nothing(entry: int, entries: int) -> None:
    """A page of entries with few fields has at most a megabyte, or one entry."""
    size = PageSize(10_000)
    for _ in range(3):
        size.update(size.now, size.now * entry, fields=2)
    assert (size.now, size.bytes) == (entries, MB)


def test_the_option_is_kept() -> None:
    """No page has more entries than the option allows, regardless of the sizes of previous entries."""
    size = PageSize(40)
    assert size.now <= 40
    size.update(8, 800)
    assert size.now == 40
    size.update(0, 10)
    assert size.now >= 1
