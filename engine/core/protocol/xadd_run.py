"""Many XADD commands as one value, as a pipeline brings them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class XaddRun(Protocol):
    """A run of XADDs whose shape is proven; :class:`engine.wire.bulk.AddRun` is one."""

    #: How many commands there are.
    count: int
    #: The first command's words before its fields: XADD, key, options, ID.
    head: list[bytes]
    #: How many words each entry's fields and values are.
    words: int
    #: Each command's bytes from its first field on, and how many they are.
    bodies: list[bytes]
    sizes: list[int]
    #: Each command's key as a bulk string, where not all have the first one's.
    keys: list[bytes] | None
    #: Each command's ID as a bulk string, where not all are ``*``.
    ids: list[bytes] | None

    def commands(self) -> Iterator[list[bytes]]:
        """The commands one by one, as words."""
