"""Commands of the other types, of keys, and of their expiry."""

from engine.core.commands.data import (
    conditional,
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
    sort,
    sorted_sets,
    string_parts,
    strings,
)

__all__ = [
    "conditional",
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
    "sort",
    "sorted_sets",
    "string_parts",
    "strings",
]
