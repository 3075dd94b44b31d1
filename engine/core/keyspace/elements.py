"""Common base of hashes, sets and sorted sets: iteration with cursors, random draws, and reads in parts.

Values keep the order of insertion, because Redis shows the elements of small values in this order. The index for
cursors and draws is created on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar
from weakref import ref

T = TypeVar("T")
V = TypeVar("V")

#: Number of words per part of a long value.
_PART = 2000
#: Number of parts per step.
_PARTS = 6
#: Positions checked per removal, so that removing half of the names checks all positions.
_CHECKS_PER_REMOVAL = 2


class Elements(dict[bytes, V]):
    """Fields of a hash with their values, members of a set, or members of a sorted set with their scores.

    Set elements with the subclass's ``put`` and remove them with ``remove``, never with ``[]``.
    """

    __slots__ = ("_names", "readings")

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        if elements:
            self.update(elements)
        self._names: Names | None = None
        #: The unfinished reads of the value in parts, for images. Until they finish, the value is not freed in pieces.
        self.readings: dict[ref[Reading], None] | None = None

    def remove(self, name: bytes) -> bool:
        """Remove an element; return whether it existed."""
        if name not in self:
            return False
        if self.readings:
            self._disturb()
        del self[name]
        if self._names is not None:
            self._names.remove(name)
        return True

    @property
    def names(self) -> Names:
        """The index of the names, for cursors and draws."""
        if self._names is None:
            self._names = Names(self)
        return self._names

    def drawn(self, count: int, pick: Callable[[int], int]) -> list[bytes]:
        """Draw ``count`` distinct names (all if there are fewer). If ``count`` < 0, draw -``count`` with repetition.

        ``pick`` returns a random number below its argument.
        """
        if count >= len(self):
            return list(self)
        return self.names.drawn(count, pick)

    def draws(self, count: int, pick: Callable[[int], int]) -> Iterator[bytes]:
        """Yield the names that ``drawn`` returns, in steps between which other names may be drawn."""
        if count < 0:
            return (self.names.draw_one(pick) for _ in range(-count))
        if count >= len(self):
            return iter(self)
        # A copy, because other draws may move names of the index.
        return map(list(self).__getitem__, drawn_positions(len(self), count, pick))

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return [self] if self._names is None else [self, *self._names.tables()]

    def _disturb(self) -> None:
        for reference in tuple(self.readings or ()):
            reading = reference()
            if reading is not None:
                reading.disturb()


class Reading:
    """A read of a value in parts, registered with the value while this object exists."""

    __slots__ = ("__weakref__",)

    def __init__(self, elements: Elements[Any]) -> None:
        if elements.readings is None:
            elements.readings = {}
        # A dictionary, because one value can have many reads, and a dictionary removes each in constant time.
        elements.readings[ref(self, elements.readings.pop)] = None

    def disturb(self) -> None:
        """Read the remaining parts, because the value is about to change."""
        raise NotImplementedError


def distinct(sources: Iterable[T]) -> list[T]:
    """Return the distinct objects in the order of their first occurrence: commands can name a key repeatedly."""
    return list({id(source): source for source in sources}.values())


def drawn_positions(size: int, count: int, pick: Callable[[int], int]) -> Iterator[int]:
    """Yield ``count`` (less than ``size``) distinct numbers below ``size``.

    If ``count`` is negative, yield -``count`` numbers with repetition.
    """
    if count < 0:
        for _ in range(-count):
            yield pick(size)
    # Start of a Fisher-Yates shuffle that records only the moved positions.
    moved: dict[int, int] = {}
    for position in range(count):
        drawn = position + pick(size - position)
        yield moved.get(drawn, drawn)
        moved[drawn] = moved.get(position, position)


def in_parts(words: Iterator[T], others: int = 0) -> Iterator[list[T]]:
    """Yield the words in lists.

    ``others`` is the number of look-ups that a word needs in addition to one. The lists are shorter accordingly.
    """
    size = max(_PART // (others + 1), 1)
    while part := list(islice(words, size)):
        yield part


def gathered(words: Iterator[T], others: int = 0) -> Generator[None, None, list[list[T]]]:
    """Collect words in steps; return them as lists of words, the last list first. ``others``: see ``in_parts``."""
    parts = yield from gathered_parts(in_parts(words, others))
    parts.reverse()
    return parts


def gathered_parts(parts: Iterable[T]) -> Generator[None, None, list[T]]:
    """Collect ``parts`` in steps. Each part is made from about as many elements as one list of ``in_parts``."""
    found: list[T] = []
    for number, part in enumerate(parts, 1):
        found.append(part)
        if not number % _PARTS:
            yield
    return found


class Names:
    """An ordered set of names with cursors. All operations are O(1), except iteration steps and draws: O(count).

    The names are stored in a list without an index. The list is created with one copy, even for a million names. A
    removed name keeps its position until a later removal: each removal checks two positions, going from the end to the
    start, and fills the position of a removed name with the last name of the list. Names only move towards the start,
    and an iteration goes in the same direction. So a name that exists throughout an iteration is returned, possibly
    twice.
    """

    __slots__ = ("_checked_at", "_names", "_removed")

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self._names = list(names)
        #: The removed names whose position has not been filled yet.
        self._removed: dict[bytes, None] = {}
        #: The last checked position. The position before it is checked next.
        self._checked_at = 0

    def add(self, name: bytes) -> None:
        """Add a new name."""
        if name in self._removed:
            # The name's former position is still reserved.
            del self._removed[name]
        else:
            self._names.append(name)

    def remove(self, name: bytes) -> None:
        """Remove an existing name."""
        self._removed[name] = None
        for _ in range(_CHECKS_PER_REMOVAL):
            if not self._removed:
                return
            if not 0 < self._checked_at <= len(self._names):
                self._checked_at = len(self._names)
            self._checked_at -= 1
            if self._names[self._checked_at] in self._removed:
                self._free(self._checked_at)

    def _free(self, position: int) -> None:
        """Fill the position of a removed name with the last name."""
        del self._removed[self._names[position]]
        last = self._names.pop()
        if position < len(self._names):
            self._names[position] = last

    def draw_one(self, pick: Callable[[int], int]) -> bytes:
        """Draw a name. At least one name must exist. ``pick`` returns a random number below its argument."""
        while True:
            position = pick(len(self._names))
            name = self._names[position]
            if name not in self._removed:
                return name
            self._free(position)

    def drawn(self, count: int, pick: Callable[[int], int]) -> list[bytes]:
        """Draw ``count`` distinct names. At least ``count`` names must exist.

        If ``count`` < 0, draw -``count`` names with repetition. ``pick`` returns a random number below its argument.
        """
        if count < 0:
            return [self.draw_one(pick) for _ in range(-count)]
        names, removed, found = self._names, self._removed, list[bytes]()
        size, position = len(names), 0
        # Start of a Fisher-Yates shuffle that records only the moved positions.
        moved: dict[int, int] = {}
        while len(found) < count:
            drawn = position + pick(size - position)
            name = names[moved.get(drawn, drawn)]
            moved[drawn] = moved.get(position, position)
            position += 1
            if name not in removed:
                found.append(name)
        return found

    def walk(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, which is 0 at the end, and up to ``count`` names.

        Cursor 0 starts an iteration; any other number is valid, too.
        """
        end = len(self._names) if not cursor else min(cursor, len(self._names))
        start = max(end - count, 0)
        names = self._names[start:end]
        return start, [name for name in names if name not in self._removed] if self._removed else names

    def tables(self) -> tuple[list[bytes], dict[bytes, None]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return self._names, self._removed
