"""Size of the pages in which entries are requested. This module only calculates."""

from __future__ import annotations

FIRST_PAGE = 8  # number of entries in the first page; few, because an entry may have many megabytes
TARGET_BYTES = 1 << 20  # fits into a core's cache while the codec works on it
_GROWTH = 100  # maximum ratio of a page's number of entries to the previous page's
_WIDE = 100  # minimum number of fields of a wide entry
# Each page has a cost per column, so pages of wide entries may be larger than other pages.
_ENOUGH = 256  # number of wide entries that a page should have
_MOST_BYTES = 8 << 20  # maximum size of a page of wide entries


class PageSize:
    """Number of entries for a page of about a megabyte, estimated from the previous page; at most `most`.

    Pages of entries with many fields may have up to eight megabytes, since few such entries fit into a megabyte.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = min(most, FIRST_PAGE)
        self._is_known = False
        #: Approximate size of a page in bytes.
        self.bytes = TARGET_BYTES

    @property
    def is_known(self) -> bool:
        """Whether the size of at least one page was recorded."""
        return self._is_known

    def update(self, entries: int, size: int, fields: int = 0) -> None:
        """Record a page of `entries` entries in `size` bytes, whose first entry has `fields` fields."""
        self._is_known = True
        wanted = _ENOUGH * size // max(1, entries) if fields >= _WIDE else 0
        self.bytes = min(_MOST_BYTES, max(TARGET_BYTES, wanted))
        fitting = self.bytes * entries // max(1, size)
        self.now = max(1, min(self._most, fitting, self.now * _GROWTH))
