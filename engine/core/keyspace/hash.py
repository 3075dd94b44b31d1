"""A hash: a dictionary that knows whether Redis would still keep it as a listpack, and how to be walked.

The order of a small hash is the order of insertion, as a client of Redis sees it. The index for walks and draws is only
made for a big hash, when first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.core.keyspace.slots import Slots


class Hash(dict[bytes, bytes]):
    """Fields and values. Fields are set and removed with :meth:`put` and :meth:`remove` alone, never with ``[]``."""

    __slots__ = ("_slots", "big")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] | Mapping[bytes, bytes] = (), *, big: bool = False) -> None:
        super().__init__(pairs)
        #: Too many fields, or too long ones, for a listpack; a hash never becomes small again.
        self.big = big
        self._slots: Slots | None = None

    def put(self, field: bytes, value: bytes, limits: tuple[int, int]) -> bool:
        """Set a field; whether it is new. ``limits`` are the most fields and the longest word of a small hash."""
        new = field not in self
        self[field] = value
        if not self.big and (len(self) > limits[0] or len(field) > limits[1] or len(value) > limits[1]):
            self.big = True
        if new and self._slots is not None:
            self._slots.add(field)
        return new

    def remove(self, field: bytes) -> bool:
        """Drop a field; whether it was there."""
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

    def copy(self) -> Hash:
        """A hash of its own with the same fields, in the same order."""
        return Hash(self, big=self.big)
