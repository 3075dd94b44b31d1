"""A hash: a dictionary of fields and values, in the order of insertion.

HSCAN walks a list of the names, from its end to its start; the cursor is the number of names still ahead. The list is
created by the first HSCAN. New names are appended to it. It keeps removed names, which HSCAN skips, and is created
again if it has grown to twice the size of the hash. Names only move towards the start then, because the dictionary has
the same order. So a field that exists throughout an iteration is returned, possibly twice.
"""

from __future__ import annotations

#: Number of removed names that the list for HSCAN may have besides the size of the hash.
_REMOVED = 64


class Hash(dict[bytes, bytes]):
    """Fields and values. Set fields only with ``put``, never with ``[]``."""

    __slots__ = ("_names",)

    def __init__(self, *args: object) -> None:
        dict.__init__(self, *args)
        #: The names for HSCAN, with some that have been removed; None before the first HSCAN.
        self._names: list[bytes] | None = None

    def put(self, field: bytes, value: bytes) -> bool:
        """Set a field; return whether it is new."""
        new = field not in self
        self[field] = value
        if new and self._names is not None:
            self._names.append(field)
            if self._is_stale():
                self._names = None
        return new

    def _is_stale(self) -> bool:
        return self._names is None or len(self._names) > 2 * len(self) + _REMOVED

    def walk(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, which is 0 at the end, and the fields among the next ``count`` names.

        Cursor 0 starts an iteration; any other number is valid, too.
        """
        if self._names is None or self._is_stale():
            self._names = list(self)
        names = self._names
        end = min(cursor, len(names)) if cursor else len(names)
        start = max(end - count, 0)
        return start, [name for name in names[start:end] if name in self]

    def copy(self) -> Hash:
        """Return an independent copy with the same order."""
        return Hash(self)

    def tables(self) -> tuple[Hash | list[bytes], ...]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return (self, self._names) if self._names else (self,)
