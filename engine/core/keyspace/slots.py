"""Names with cursors and random draws, for SCAN and RANDOMKEY.

The names fill a list without gaps: the last name moves to the place of a removed name. An iteration goes from the end
to the start, and its cursor is the number of places still ahead. Names only move towards the start, so a name that
exists throughout an iteration is returned, possibly twice. An iteration from the start to the end would miss names.
"""

from __future__ import annotations

from collections.abc import Iterable


class Slots:
    """An ordered set of names with cursors. All operations are O(1), except iteration steps: O(count)."""

    __slots__ = ("_names", "_place_of")

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self._names = list(names)
        self._place_of = {name: place for place, name in enumerate(self._names)}

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: int) -> bytes:
        return self._names[place]

    def place_of(self, name: bytes) -> int:
        """Return the place of a name, -1 if it does not exist."""
        return self._place_of.get(name, -1)

    def between(self, begin: int, end: int) -> list[bytes]:
        """Return the names at the places [begin, end)."""
        return self._names[begin:end]

    def add(self, name: bytes) -> None:
        """Add a new name."""
        self._place_of[name] = len(self._names)
        self._names.append(name)

    def remove(self, name: bytes) -> None:
        """Remove an existing name."""
        place = self._place_of.pop(name)
        last = self._names.pop()
        if last is not name and place < len(self._names):
            self._names[place] = last
            self._place_of[last] = place

    def tables(self) -> tuple[list[bytes], dict[bytes, int]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return self._names, self._place_of

    def walk(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, which is 0 at the end, and up to ``count`` names.

        Cursor 0 starts an iteration; any other number is valid, too.
        """
        end = len(self._names) if not cursor else min(cursor, len(self._names))
        start = max(end - count, 0)
        return start, self._names[start:end]
