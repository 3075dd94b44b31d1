"""Names that can be walked in pieces and drawn from: what SCAN and RANDOMKEY stand on.

The names lie densely in a list; where one goes, the last one takes its place. A walk goes from the end to the
beginning, and its cursor is the number of places still ahead of it. So a name only ever moves towards what a walk has
not seen yet, and a name that is there from a walk's first step to its last is met (perhaps twice). Walking upwards
would break that.
"""

from __future__ import annotations

from collections.abc import Iterable


class Slots:
    """An ordered set of names with cursors. All steps are O(1), a walk's step O(count)."""

    __slots__ = ("_names", "_place_of")

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self._names = list(names)
        self._place_of = {name: place for place, name in enumerate(self._names)}

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: int) -> bytes:
        return self._names[place]

    def place_of(self, name: bytes) -> int:
        """Where a name lies, -1 where it is not there."""
        return self._place_of.get(name, -1)

    def between(self, begin: int, end: int) -> list[bytes]:
        """The names at the places [begin, end)."""
        return self._names[begin:end]

    def add(self, name: bytes) -> None:
        """A name that was not there."""
        self._place_of[name] = len(self._names)
        self._names.append(name)

    def remove(self, name: bytes) -> None:
        """A name that was there goes."""
        place = self._place_of.pop(name)
        last = self._names.pop()
        if last is not name and place < len(self._names):
            self._names[place] = last
            self._place_of[last] = place

    def tables(self) -> tuple[list[bytes], dict[bytes, int]]:
        """What it consists of, for whoever takes it apart."""
        return self._names, self._place_of

    def walk(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0: done) and up to ``count`` names. Cursor 0 begins a walk; any number is a valid one."""
        end = len(self._names) if not cursor else min(cursor, len(self._names))
        start = max(end - count, 0)
        return start, self._names[start:end]
