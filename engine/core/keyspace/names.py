"""Names of a value's elements with cursors and random draws, for SSCAN, SPOP and similar commands.

The names are only in a list, without an index, so creating it for a million names is one copy. A removed name keeps its
place and is marked as gone. Each removal checks two places, from the end to the start, and fills a gone place with the
last name of the list. Names only move towards the start, and an iteration also goes from the end to the start, so a
name that exists throughout an iteration is returned, possibly twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: Places checked per removal. All places have been checked when half as many names have been removed.
_LOOKED_AT = 2


class Names:
    """An ordered set of names with cursors. All operations are O(1), an iteration step and a draw O(count)."""

    __slots__ = ("_gone", "_looked_at", "_names")

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self._names = list(names)
        #: The names that have been removed.
        self._gone: dict[bytes, None] = {}
        #: The last checked place: the next one to check is before it.
        self._looked_at = 0

    def add(self, name: bytes) -> None:
        """Add a new name."""
        if name in self._gone:
            # The name's former place is still reserved.
            del self._gone[name]
        else:
            self._names.append(name)

    def remove(self, name: bytes) -> None:
        """Remove an existing name."""
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
        """Replace a removed name by the last one."""
        del self._gone[self._names[place]]
        last = self._names.pop()
        if place < len(self._names):
            self._names[place] = last

    def one(self, pick: Callable[[int], int]) -> bytes:
        """Draw a name; there must be one. ``pick`` returns a random number below its argument."""
        while True:
            place = pick(len(self._names))
            name = self._names[place]
            if name not in self._gone:
                return name
            self._free(place)

    def drawn(self, count: int, pick: Callable[[int], int]) -> list[bytes]:
        """Draw ``count`` distinct names, of at least as many, or -``count`` names with repetition if it is negative."""
        if count < 0:
            return [self.one(pick) for _ in range(-count)]
        names, gone, found = self._names, self._gone, list[bytes]()
        size, place = len(names), 0
        # Start of a Fisher-Yates shuffle that records only the moved places.
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
        """Return the next cursor (0: done) and up to ``count`` names. Cursor 0 starts; every number is valid."""
        end = len(self._names) if not cursor else min(cursor, len(self._names))
        start = max(end - count, 0)
        names = self._names[start:end]
        return start, [name for name in names if name not in self._gone] if self._gone else names

    def tables(self) -> tuple[list[bytes], dict[bytes, None]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return self._names, self._gone
