"""The keys of a database with their values, for look-ups and SCAN.

The keys fill slots without gaps: the last key moves to the slot of a removed key. An iteration goes from the last slot
to the first, and its cursor is the number of slots still ahead. Keys only move towards the first slot, so a key that
exists throughout an iteration is returned, possibly twice. An iteration from the first slot to the last would miss
keys.

Lists grow in place, but a dictionary that grows inserts all its keys again, which takes 0.2 s for 5.6 million keys. So
keys are distributed to many dictionaries, each of which grows in a few milliseconds, and not at the same moment.
"""

from __future__ import annotations

from typing import Any

#: Position of the bits of a key's hash that select its dictionary. The lowest bits select its position there.
SHIFT = 40
#: Mask for these bits: the number of dictionaries minus one.
MASK = 63


class KeyTable:
    """The keys of one database. ``values`` and ``names`` are indexed by slot, ``slots`` by a part of the key's hash.

    All operations are O(1), except iteration steps: O(count). Callers may read the attributes, and assign elements of
    ``values``.
    """

    __slots__ = ("names", "slots", "values")

    def __init__(self) -> None:
        self.slots: list[dict[bytes, int]] = [{} for _ in range(MASK + 1)]
        self.names: list[bytes] = []
        self.values: list[Any] = []

    def __len__(self) -> int:
        return len(self.names)

    def slot_of(self, name: bytes) -> int | None:
        """Return the slot of a key, None if it does not exist."""
        return self.slots[hash(name) >> SHIFT & MASK].get(name)

    def value(self, name: bytes) -> Any:
        """Return the value of a key, None if it does not exist."""
        slot = self.slot_of(name)
        return None if slot is None else self.values[slot]

    def add(self, name: bytes, value: Any) -> None:
        """Add a new key."""
        self.slots[hash(name) >> SHIFT & MASK][name] = len(self.names)
        self.names.append(name)
        self.values.append(value)

    def remove(self, name: bytes) -> None:
        """Remove an existing key."""
        slot = self.slots[hash(name) >> SHIFT & MASK].pop(name)
        last, value = self.names.pop(), self.values.pop()
        if slot < len(self.names):
            self.names[slot], self.values[slot] = last, value
            self.slots[hash(last) >> SHIFT & MASK][last] = slot

    def columns(self) -> tuple[dict[bytes, int] | list[Any], ...]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return *self.slots, self.names, self.values

    def walk(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, which is 0 at the end, and up to ``count`` keys.

        Cursor 0 starts an iteration; any other number is valid, too.
        """
        end = len(self.names) if not cursor else min(cursor, len(self.names))
        start = max(end - count, 0)
        return start, self.names[start:end]
