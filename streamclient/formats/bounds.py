"""Bounds of decoding, which keep its time and memory proportional to the size of a value.

A value may have one item for every 8 bytes, or 65,536 items if that is more. A value may be nested in up to 200 levels,
and its numbers may have up to 4,300 digits. Items are records, messages, maps, lists and list members of zero bytes. A
value beyond a bound is malformed. The items of JSON and of long Protobuf messages are counted before a value is
decoded, and those of MessagePack and Avro while it is decoded. They are not counted if an Avro value cannot exceed the
bound.
"""

from __future__ import annotations

from typing import Any

from streamclient.formats.schemas import UndecodableError

#: Maximum number of items in a value of up to `ITEMS * BYTES_PER_ITEM` bytes.
ITEMS = 65_536
#: Number of bytes per item in longer values.
BYTES_PER_ITEM = 8
#: Maximum number of columns of a schema, including nested members, with all references to named types expanded.
MEMBERS = 10_000
#: Maximum number of nested levels.
LEVELS = 200
#: Maximum number of digits of a number. Python's own limit for integers is the same.
DIGITS = 4_300


def most_items(size: int) -> int:
    """Return the maximum number of items of a value with this size in bytes."""
    return max(ITEMS, size // BYTES_PER_ITEM)


class Budget:
    """Number of items that may still follow in a value. `most`: maximum number of items in the value."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def spend(self, count: int = 1) -> None:
        """Count items. Raises UndecodableError above the maximum."""
        self._left -= count
        if self._left < 0:
            raise UndecodableError(f"there are more than {self._most:,} records, maps and lists")

    def check_levels(self, value: Any) -> None:
        """Raise UndecodableError if a value whose items were counted is nested too deep."""
        if self._most - self._left > LEVELS and is_deep(value):
            raise UndecodableError(f"the value is nested in more than {LEVELS} levels")


def is_deep(value: Any, levels: int = LEVELS) -> bool:
    """Return whether a value is nested in more than this number of levels."""
    level = [value]
    for _ in range(levels):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list, tuple))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)
