"""Commands of the other types, of keys, and of their expiry."""

from engine.core.commands.data import (
    dump,
    expiry,
    hash_expiry,
    hashes,
    keys,
    list_elements,
    lists,
    objects,
    scan,
    set_algebra,
    sets,
    sort,
    sorted_sets,
    strings,
)

__all__ = [
    "dump",
    "expiry",
    "hash_expiry",
    "hashes",
    "keys",
    "list_elements",
    "lists",
    "objects",
    "scan",
    "set_algebra",
    "sets",
    "sort",
    "sorted_sets",
    "strings",
]
