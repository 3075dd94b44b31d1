"""Common base of hashes, sets and sorted sets: elements in a dictionary that can be iterated with a cursor, drawn at
random, and read in parts.

Small values keep the order of insertion, which clients of Redis see. The index for cursors and draws is created on
first use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar
from weakref import ref

from engine.core.keyspace.names import Names

T = TypeVar("T")
V = TypeVar("V")
E = TypeVar("E", bound="Elements[Any]")

#: Number of words of a long value per part, and of parts per step.
_PART, _PARTS = 2000, 6


class Elements(dict[bytes, V]):
    """Fields of a hash with their values, members of a set, or members of a sorted set with their scores.

    Set them with the subclass's ``put`` and remove them with ``remove``, never with ``[]``.
    """

    __slots__ = ("_names", "readings")

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        super().__init__(elements)
        self._names: Names | None = None
        #: Commands that are reading the value in parts. Until they finish, it may be changed but not freed in pieces.
        self.readings: dict[ref[Reading], None] | None = None

    def _place(self, name: bytes, value: V) -> bool:
        """Set an element; return whether it is new."""
        if self.readings:
            self._disturb()
        new = name not in self
        self[name] = value
        if new and self._names is not None:
            self._names.add(name)
        return new

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
        """Draw ``count`` distinct names (all if there are fewer), or -``count`` names with repetition.

        ``pick`` returns a random number below its argument.
        """
        if count >= len(self):
            return list(self)
        return self.names.drawn(count, pick)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return [self] if self._names is None else [self, *self._names.tables()]

    def _disturb(self) -> None:
        for one in tuple(self.readings or ()):
            reading = one()
            if reading is not None:
                reading.disturb()


class Reading:
    """A registered read of values in parts, in progress while this object exists. Sources can be repeated.

    ``is_disturbed``: whether one of the values has changed or is about to change.
    """

    __slots__ = ("__weakref__", "is_disturbed")

    def __init__(self, sources: Iterable[Elements[Any]]) -> None:
        self.is_disturbed = False
        for elements in distinct(sources):
            if elements.readings is None:
                elements.readings = {}
            # A dictionary, because many commands can read one value: each of them is removed in constant time.
            elements.readings[ref(self, elements.readings.pop)] = None

    def disturb(self) -> None:
        """Note that one of the values is about to change."""
        self.is_disturbed = True


def distinct(sources: Iterable[T]) -> list[T]:
    """Return the distinct objects in the order of their first occurrence: commands can name a key repeatedly."""
    return list({id(one): one for one in sources}.values())


def drawn_places(size: int, count: int, pick: Callable[[int], int]) -> Iterator[int]:
    """Yield ``count`` distinct numbers below ``size`` (which is greater), or -``count`` numbers with repetition."""
    if count < 0:
        for _ in range(-count):
            yield pick(size)
    # Start of a Fisher-Yates shuffle that records only the moved places.
    moved: dict[int, int] = {}
    for place in range(count):
        drawn = place + pick(size - place)
        yield moved.get(drawn, drawn)
        moved[drawn] = moved.get(place, place)


def in_parts(words: Iterator[T], others: int = 0) -> Iterator[list[T]]:
    """Yield the words as lists of the size of a part; smaller if the caller looks each up in ``others`` values."""
    size = max(_PART // (others + 1), 1)
    while part := list(islice(words, size)):
        yield part


def gathered(elements: E, words: Callable[[E], Iterator[T]]) -> Generator[None, None, list[list[T]]]:
    """Collect the result of ``words`` in steps; return it as lists of words, the last list first.

    The result shows one moment: if the value changes before the last step, all words are collected again at once. From
    this call on, until the end, the value is not freed in pieces.
    """
    return _reversed(gathered_from([elements], lambda: in_parts(words(elements))))


def _reversed(gathering: Generator[None, None, list[T]]) -> Generator[None, None, list[T]]:
    parts = yield from gathering
    parts.reverse()
    return parts


def gathered_from(sources: Sequence[Elements[Any]], parts: Callable[[], Iterator[T]]) -> Generator[None, None, list[T]]:
    """Collect the ``parts`` made from several values in steps.

    Each part is made from about as many elements as one list of ``in_parts``. All parts show the same moment: if one of
    the values changes before the last step, all parts are made again at once. The values do not change between the last
    part and the return.
    """
    return _gather(Reading(sources), parts)


def _gather(reading: Reading, parts: Callable[[], Iterator[T]]) -> Generator[None, None, list[T]]:
    reading.is_disturbed = False
    found: list[T] = []
    for number, part in enumerate(parts(), 1):
        found.append(part)
        if not number % _PARTS:
            yield
            if reading.is_disturbed:
                return list(parts())
    return found
