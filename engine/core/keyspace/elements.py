"""What hashes, sets and sorted sets have in common: elements in a dictionary, which can be walked,
drawn from, and read in parts.

The order of a small one is the order of insertion, as a client of Redis sees it. The index for walks and draws is only
made when it is first asked for.
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

#: Words that are gathered from a long value together, and so many of these parts at once.
_PART, _PARTS = 2000, 6


class Elements(dict[bytes, V]):
    """Fields of a hash with their values, members of a set, or members of a sorted set with their scores.

    They are set by the subclass's ``put`` and removed with :meth:`remove` alone, never with ``[]``.
    """

    __slots__ = ("_names", "readings")

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        super().__init__(elements)
        self._names: Names | None = None
        #: Commands that read it in parts. Until they are done it may be changed, but not taken apart.
        self.readings: dict[ref[Reading], None] | None = None

    def _place(self, name: bytes, value: V) -> bool:
        """Set an element; whether it is new."""
        if self.readings:
            self._disturb()
        new = name not in self
        self[name] = value
        if new and self._names is not None:
            self._names.add(name)
        return new

    def remove(self, name: bytes) -> bool:
        """Drop an element; whether it was there."""
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
        """The names of the elements, to be walked or drawn from."""
        if self._names is None:
            self._names = Names(self)
        return self._names

    def drawn(self, count: int, pick: Callable[[int], int]) -> list[bytes]:
        """``count`` different names (all, if there are no more), or -``count`` names of which some may be equal.

        ``pick`` gives a random number below the one that it is called with.
        """
        if count >= len(self):
            return list(self)
        return self.names.drawn(count, pick)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        """What it consists of, for whoever takes it apart."""
        return [self] if self._names is None else [self, *self._names.tables()]

    def _disturb(self) -> None:
        for one in tuple(self.readings or ()):
            reading = one()
            if reading is not None:
                reading.disturb()


class Reading:
    """A command that reads values in parts, for as long as this object exists. A value may be named repeatedly.

    ``is_disturbed``: one of the values has changed, or is about to.
    """

    __slots__ = ("__weakref__", "is_disturbed")

    def __init__(self, sources: Iterable[Elements[Any]]) -> None:
        self.is_disturbed = False
        for elements in distinct(sources):
            if elements.readings is None:
                elements.readings = {}
            # A dictionary, because many commands may read one value: each of them leaves in constant time.
            elements.readings[ref(self, elements.readings.pop)] = None

    def disturb(self) -> None:
        """A value is about to change."""
        self.is_disturbed = True


def distinct(sources: Iterable[T]) -> list[T]:
    """The objects without repetitions, in the order of their first mention: commands may name a key repeatedly."""
    return list({id(one): one for one in sources}.values())


def drawn_places(size: int, count: int, pick: Callable[[int], int]) -> Iterator[int]:
    """``count`` different numbers below ``size``, which is greater, or -``count`` of which some may be equal."""
    if count < 0:
        for _ in range(-count):
            yield pick(size)
    # The first steps of a shuffle, with only the places that moved written down.
    moved: dict[int, int] = {}
    for place in range(count):
        drawn = place + pick(size - place)
        yield moved.get(drawn, drawn)
        moved[drawn] = moved.get(place, place)


def in_parts(words: Iterator[T], others: int = 0) -> Iterator[list[T]]:
    """Lists of as many words as are gathered together; fewer if each is looked up in several ``others``."""
    size = max(_PART // (others + 1), 1)
    while part := list(islice(words, size)):
        yield part


def gathered(elements: E, words: Callable[[E], Iterator[T]]) -> Generator[None, None, list[list[T]]]:
    """What ``words`` iterates over, as it is at one moment from now on, in steps: lists of words, the last one first.

    Where somebody changes the value in between, what it holds at the next step is gathered at once. Already before the
    first step the value is not taken apart.
    """
    return _reversed(gathered_from([elements], lambda: in_parts(words(elements))))


def _reversed(gathering: Generator[None, None, list[T]]) -> Generator[None, None, list[T]]:
    parts = yield from gathering
    parts.reverse()
    return parts


def gathered_from(sources: Sequence[Elements[Any]], parts: Callable[[], Iterator[T]]) -> Generator[None, None, list[T]]:
    """The ``parts`` that are made of several values, as these are at one moment from now on, in steps.

    Each part is made of about as many elements as :func:`in_parts` gives together. Where one of the values is changed
    in between, all parts are made anew and at once. Nobody changes them between the last part and the return.
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
