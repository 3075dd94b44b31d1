"""Size of the pages in which entries are requested. This module only calculates."""

from __future__ import annotations

FIRST_PAGE = 8  # number of entries in the first page; few, because an entry may have many megabytes
TARGET_BYTES = 1 << 20  # fits into a core's cache while the codec works on it
ALL = 2**62  # larger than the number of entries in any stream
_GROWTH = 100  # maximum ratio of a page's number of entries to the previous page's


class PageSize:
    """Number of entries for a page of about a megabyte, estimated from the previous page; at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = min(most, FIRST_PAGE)
        #: Whether the size of at least one page was recorded.
        self.is_known = False

    def update(self, entries: int, size: int) -> None:
        """Record a page of `entries` entries in `size` bytes."""
        self.is_known = True
        self.now = max(1, min(self._most, TARGET_BYTES * entries // max(1, size), self.now * _GROWTH))
