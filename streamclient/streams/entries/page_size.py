"""The size of the pages in which entries are asked for. Pure arithmetic."""

from __future__ import annotations

FIRST_PAGE = 8  # entries of unknown size: they may have many megabytes each
TARGET_BYTES = 1 << 20  # what the codec works on then fits into a core's cache
_GROWTH = 100
_WIDE = 100  # fields of an entry
_ENOUGH, _MOST_BYTES = 256, 8 << 20  # a page costs something for each of its columns, which wide entries are to share


class PageSize:
    """How many entries to ask for: about a megabyte of them, judged by the page before, at most `most`.

    Of entries with so many fields that they are few, up to eight megabytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = min(most, FIRST_PAGE)
        self._is_known = False
        #: About how many bytes a page has.
        self.bytes = TARGET_BYTES

    @property
    def is_known(self) -> bool:
        """Whether a page has been seen."""
        return self._is_known

    def learn(self, entries: int, size: int, fields: int = 0) -> None:
        """Record a page of `entries` entries in `size` bytes, whose first entry has `fields` fields."""
        self._is_known = True
        wanted = _ENOUGH * size // max(1, entries) if fields >= _WIDE else 0
        self.bytes = min(_MOST_BYTES, max(TARGET_BYTES, wanted))
        fitting = self.bytes * entries // max(1, size)
        self.now = max(1, min(self._most, fitting, self.now * _GROWTH))
