"""The size of the pages in which entries are asked for. Pure arithmetic."""

from __future__ import annotations

_FIRST_PAGE = 8  # entries of unknown size: they may have many megabytes each
TARGET_BYTES = 1 << 20  # what the codec works on then fits into a core's cache
_GROWTH = 100


class PageSize:
    """How many entries to ask for: about a megabyte of them, judged by the page before, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = min(most, _FIRST_PAGE)
        self._is_known = False

    @property
    def is_known(self) -> bool:
        """Whether a page has been seen."""
        return self._is_known

    def learn(self, entries: int, size: int) -> None:
        """A page had so many entries, in `size` bytes."""
        self._is_known = True
        fitting = TARGET_BYTES * entries // max(1, size)
        self.now = max(1, min(self._most, fitting, self.now * _GROWTH))
