"""Commands of the other types, of keys, and of their expiry."""

from engine.core.commands.data import (
    counters,
    dump,
    expiry,
    hashes,
    keys,
    list_elements,
    lists,
    objects,
    scan,
    set_algebra,
    sets,
    string_parts,
    strings,
)

__all__ = [
    "counters",
    "dump",
    "expiry",
    "hashes",
    "keys",
    "list_elements",
    "lists",
    "objects",
    "scan",
    "set_algebra",
    "sets",
    "string_parts",
    "strings",
]
