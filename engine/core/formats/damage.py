"""Errors for damaged bytes, and the types of Redis and Valkey that the engine does not store, in any format.

Readers count the keys of each such type to the end of the data, so that one error names all of them.
"""

from __future__ import annotations

from engine.core.protocol.replies import CommandError


class DamagedError(Exception):
    """The bytes are damaged, or contain something unknown.

    ``offset`` is the start of the damaged item, in bytes from the start of the file.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


class ForeignError(DamagedError):
    """The bytes are intact, but contain something that the engine does not support, so a retry would not help."""


LISTS, SETS, SORTED_SETS = "lists", "sets", "sorted sets"
FIELD_EXPIRY, FUNCTIONS = "expiring hash fields", "Lua scripts and functions"

#: Maximum number of bytes of a key in messages.
_SHOWN = 100


def module_values(name: str) -> str:
    """Return the name of a module's type."""
    return f"values of the module type {name}"


def module_data(name: str) -> str:
    """Return the name for data that a module stores outside keys."""
    return f"data of the module type {name}"


def shown(word: bytes) -> str:
    """Return a key as text for messages."""
    return word[:_SHOWN].decode("utf-8", "backslashreplace")


def shown_key(key: bytes, db: int) -> str:
    """Return a key with its database, for messages."""
    return f"key '{shown(key)}' of database {db}"


def shown_library(code: bytes) -> str:
    """Return the first line of a library of functions, which has its name, for messages."""
    return "'" + shown(code.partition(b"\n")[0]) + "'"


class UnsupportedTypes:
    """The unsupported types found in one source: for each type, the number of its items and the first item."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._first: dict[str, str] = {}
        #: Offset of the first item.
        self.offset = 0

    def add(self, kind: str, item: str, offset: int) -> None:
        """Count an item of the type ``kind``; ``item`` describes it, ``offset`` is its offset in the source."""
        if not self.counts:
            self.offset = offset
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._first.setdefault(kind, item)

    def add_key(self, kind: str, key: bytes, db: int, offset: int) -> None:
        """Count a key with a value of the type ``kind``."""
        self.add(kind, shown_key(key, db), offset)

    @property
    def total(self) -> int:
        """Number of items of all types."""
        return sum(self.counts.values())

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        """Return, for each type, the number of items and the first item."""
        # (Without commas: some clients parse a value of INFO with commas as a list.)
        return "; ".join(f"{kind}: {count} (first: {self._first[kind]})" for kind, count in self.counts.items())


class UnsupportedTypesError(ForeignError):
    """The data is intact, but has types that the engine does not store."""

    def __init__(self, found: UnsupportedTypes) -> None:
        super().__init__(found.offset, f"this engine stores streams and not these types: {found}")


class UnsupportedValueError(CommandError):
    """RESTORE's error for a value of the type ``kind``, which the engine does not store."""

    def __init__(self, kind: str) -> None:
        super().__init__(b"ERR unsupported value: this engine stores streams; %b need Redis or Valkey" % kind.encode())
        self.kind = kind
