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
        #: Those who gather its words in parts. Until they are done it may be changed, but not taken apart.
        self.readings: list[ref[Reading]] | None = None

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
        for one in self.readings or ():
            reading = one()
            if reading is not None:
                reading.disturb()


class Reading:
    """Somebody who gathers the words of a value in parts, for as long as this exists.

    ``is_disturbed``: the value has changed, or is about to.
    """

    __slots__ = ("__weakref__", "is_disturbed")

    def __init__(self, elements: Elements[Any]) -> None:
        self.is_disturbed = False
        if elements.readings is None:
            elements.readings = []
        elements.readings.append(ref(self, elements.readings.remove))

    def disturb(self) -> None:
        """The value is about to change."""
        self.is_disturbed = True


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


def in_parts(words: Iterator[T]) -> Iterator[list[T]]:
    """Lists of as many words as are gathered together."""
    while part := list(islice(words, _PART)):
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
    return _gather([Reading(one) for one in sources], parts)


def _gather(readings: list[Reading], parts: Callable[[], Iterator[T]]) -> Generator[None, None, list[T]]:
    for reading in readings:
        reading.is_disturbed = False
    found: list[T] = []
    for number, part in enumerate(parts(), 1):
        found.append(part)
        if not number % _PARTS:
            yield
            if any(reading.is_disturbed for reading in readings):
                return list(parts())
    return found
