"""Commands of the other types (strings, hashes, lists, sets, sorted sets), of keys, and of expiry.

This package may import the command table, the values of the keyspace and their formats. Only DUMP and RESTORE depend on
streams. No command depends on how clients wait: a blocking command that finds no data calls ``ctx.block``.
"""

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
