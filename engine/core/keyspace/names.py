"""Names of a value's elements, to be walked in pieces and drawn from: what SSCAN, SPOP and their kin stand on.

The names lie in a list and nowhere else, so that making it for a million of them is one copy. A name that goes is noted
as gone and keeps its place; each such note pays for a look at two places, from the end to the beginning, and a place
that turns out to be free gets the last name of the list. So a name only ever moves towards what a walk, which goes the
same way, has not seen yet: a name that is there from a walk's first step to its last is met (perhaps twice).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: So many places are looked at for each name that goes: all of them, before half as many names have gone.
_LOOKED_AT = 2


class Names:
    """An ordered set of names with cursors. All steps are O(1), a walk's step and a draw O(count)."""

    __slots__ = ("_gone", "_looked_at", "_names")

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self._names = list(names)
        #: Those of them that are there no more.
        self._gone: dict[bytes, None] = {}
        #: The next place to be looked at is the one before this.
        self._looked_at = 0

    def add(self, name: bytes) -> None:
        """A name that was not there."""
        if name in self._gone:
            # It still has its place.
            del self._gone[name]
        else:
            self._names.append(name)

    def remove(self, name: bytes) -> None:
        """A name that was there goes."""
        self._gone[name] = None
        for _ in range(_LOOKED_AT):
            if not self._gone:
                return
            if not 0 < self._looked_at <= len(self._names):
                self._looked_at = len(self._names)
            self._looked_at -= 1
            if self._names[self._looked_at] in self._gone:
                self._free(self._looked_at)

    def _free(self, place: int) -> None:
        """Forget a name that is gone: the last one takes its place."""
        del self._gone[self._names[place]]
        last = self._names.pop()
        if place < len(self._names):
            self._names[place] = last

    def one(self, pick: Callable[[int], int]) -> bytes:
        """A name drawn by chance; there must be one. ``pick`` gives a random number below the one it is called with."""
        while True:
            place = pick(len(self._names))
            name = self._names[place]
            if name not in self._gone:
                return name
            self._free(place)

    def drawn(self, count: int, pick: Callable[[int], int]) -> list[bytes]:
        """``count`` different names, of which there must be as many, or -``count`` names of which some may be equal."""
        if count < 0:
            return [self.one(pick) for _ in range(-count)]
        names, gone, found = self._names, self._gone, list[bytes]()
        size, place = len(names), 0
        # The first steps of a shuffle, with only the places that moved written down.
        moved: dict[int, int] = {}
        while len(found) < count:
            drawn = place + pick(size - place)
            name = names[moved.get(drawn, drawn)]
            moved[drawn] = moved.get(place, place)
            place += 1
            if name not in gone:
                found.append(name)
        return found

    def walk(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0: done) and up to ``count`` names. Cursor 0 begins a walk; any number is a valid one."""
        end = len(self._names) if not cursor else min(cursor, len(self._names))
        start = max(end - count, 0)
        names = self._names[start:end]
        return start, [name for name in names if name not in self._gone] if self._gone else names

    def tables(self) -> tuple[list[bytes], dict[bytes, None]]:
        """What it consists of, for whoever takes it apart."""
        return self._names, self._gone
