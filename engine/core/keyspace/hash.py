"""A hash: fields and their values, and whether Redis would still keep them as a listpack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.core.keyspace.elements import Elements


class Hash(Elements[bytes]):
    """Fields and values. Fields are set and removed with :meth:`put` and :meth:`remove` alone, never with ``[]``."""

    __slots__ = ("big",)

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] | Mapping[bytes, bytes] = (), *, big: bool = False) -> None:
        super().__init__(pairs)
        #: Too many fields, or too long ones, for a listpack; a hash never becomes small again.
        self.big = big

    def put(self, field: bytes, value: bytes, limits: tuple[int, int]) -> bool:
        """Set a field; whether it is new. ``limits`` are the most fields and the longest word of a small hash."""
        new = self._place(field, value)
        if not self.big and (len(self) > limits[0] or len(field) > limits[1] or len(value) > limits[1]):
            self.big = True
        return new

    def copy(self) -> Hash:
        """A hash of its own with the same fields, in the same order."""
        return Hash(self, big=self.big)
