"""A hash: a dictionary that knows whether Redis would still keep it as a listpack, and how to be walked.

The order of a small hash is the order of insertion, as a client of Redis sees it. The index for walks and draws is only
made for a big hash, when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from weakref import ref

from engine.core.keyspace.slots import Slots

#: Words that are gathered from a long hash together, and so many of these parts at once.
_PART, _PARTS = 2000, 6


class Hash(dict[bytes, bytes]):
    """Fields and values. Fields are set and removed with :meth:`put` and :meth:`remove` alone, never with ``[]``."""

    __slots__ = ("_slots", "big", "readings")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] | Mapping[bytes, bytes] = (), *, big: bool = False) -> None:
        super().__init__(pairs)
        #: Too many fields, or too long ones, for a listpack; a hash never becomes small again.
        self.big = big
        self._slots: Slots | None = None
        #: Those who gather its words in parts. Until they are done it may be changed, but not taken apart.
        self.readings: list[ref[Reading]] | None = None

    def put(self, field: bytes, value: bytes, limits: tuple[int, int]) -> bool:
        """Set a field; whether it is new. ``limits`` are the most fields and the longest word of a small hash."""
        if self.readings:
            self._disturb()
        new = field not in self
        self[field] = value
        if not self.big and (len(self) > limits[0] or len(field) > limits[1] or len(value) > limits[1]):
            self.big = True
        if new and self._slots is not None:
            self._slots.add(field)
        return new

    def remove(self, field: bytes) -> bool:
        """Drop a field; whether it was there."""
        if self.readings:
            self._disturb()
        if self.pop(field, None) is None:
            return False
        if self._slots is not None:
            self._slots.remove(field)
        return True

    @property
    def slots(self) -> Slots:
        """The fields, to be walked or drawn from."""
        if self._slots is None:
            self._slots = Slots(self)
        return self._slots

    def tables(self) -> list[dict[bytes, Any] | list[bytes]]:
        """What it consists of, for whoever takes it apart."""
        return [self] if self._slots is None else [self, *self._slots.tables()]

    def copy(self) -> Hash:
        """A hash of its own with the same fields, in the same order."""
        return Hash(self, big=self.big)

    def _disturb(self) -> None:
        for one in self.readings or ():
            reading = one()
            if reading is not None:
                reading.is_disturbed = True


class Reading:
    """Somebody who gathers the words of a hash in parts, for as long as this exists.

    ``is_disturbed``: the hash has changed, or is about to.
    """

    __slots__ = ("__weakref__", "is_disturbed")

    def __init__(self, fields: Hash) -> None:
        self.is_disturbed = False
        if fields.readings is None:
            fields.readings = []
        fields.readings.append(ref(self, fields.readings.remove))


def gathered(fields: Hash, words: Callable[[Hash], Iterator[bytes]]) -> Generator[None, None, list[list[bytes]]]:
    """What ``words`` iterates over, as it is at one moment from now on, in steps: lists of words, the last one first.

    Where somebody changes the hash in between, what it holds at the next step is gathered at once. Already before the
    first step the hash is not taken apart.
    """
    return _gather(fields, words, Reading(fields))


def _gather(
    fields: Hash, words: Callable[[Hash], Iterator[bytes]], reading: Reading
) -> Generator[None, None, list[list[bytes]]]:
    parts: list[list[bytes]] = []
    reading.is_disturbed = False
    source = words(fields)
    while part := list(islice(source, _PART)):
        parts.append(part)
        if not len(parts) % _PARTS:
            yield
            if reading.is_disturbed:
                every = list(words(fields))
                parts = [every[at : at + _PART] for at in range(0, len(every), _PART)]
                break
    parts.reverse()
    return parts
