"""Commands of the other types, of keys, and of their expiry."""

from engine.core.commands.data import (
    dump,
    expiry,
    hashes,
    keys,
    list_elements,
    lists,
    strings,
)

__all__ = [
    "dump",
    "expiry",
    "hashes",
    "keys",
    "list_elements",
    "lists",
    "strings",
]
