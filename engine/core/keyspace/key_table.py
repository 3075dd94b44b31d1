"""The keys of a database with their values, for look-ups, SCAN and RANDOMKEY.

The keys fill slots without gaps: the last key moves to the slot of a removed key. An iteration goes from the last slot
to the first, and its cursor is the number of slots still ahead. Keys only move towards the first slot, so a key that
exists throughout an iteration is returned, possibly twice. An iteration from the first slot to the last would miss
keys.

Only one table grows with a pause: the dictionary from keys to slots. Lists grow in place.
"""

from __future__ import annotations

from typing import Any


class KeyTable:
    """The keys of one database. ``values`` and ``names`` are indexed by slot.

    All operations are O(1), except iteration steps: O(count). Callers may read the attributes, and assign elements of
    ``values``.
    """

    __slots__ = ("names", "slot_of", "values")

    def __init__(self) -> None:
        self.slot_of: dict[bytes, int] = {}
        self.names: list[bytes] = []
        self.values: list[Any] = []

    def __len__(self) -> int:
        return len(self.names)

    def value(self, name: bytes) -> Any:
        """Return the value of a key, None if it does not exist."""
        slot = self.slot_of.get(name)
        return None if slot is None else self.values[slot]

    def add(self, name: bytes, value: Any) -> None:
        """Add a new key."""
        self.slot_of[name] = len(self.names)
        self.names.append(name)
        self.values.append(value)

    def remove(self, name: bytes) -> None:
        """Remove an existing key."""
        slot = self.slot_of.pop(name)
        last, value = self.names.pop(), self.values.pop()
        if slot < len(self.names):
            self.names[slot], self.values[slot] = last, value
            self.slot_of[last] = slot

    def columns(self) -> tuple[dict[bytes, int], list[bytes], list[Any]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return self.slot_of, self.names, self.values

    def walk(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, which is 0 at the end, and up to ``count`` keys.

        Cursor 0 starts an iteration; any other number is valid, too.
        """
        end = len(self.names) if not cursor else min(cursor, len(self.names))
        start = max(end - count, 0)
        return start, self.names[start:end]
