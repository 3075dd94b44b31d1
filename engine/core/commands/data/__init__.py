"""Commands of the other types (strings, hashes, lists, sets, sorted sets), of keys, and of their expiry.

They may import the command table, the values of the keyspace and their formats. Of streams only DUMP and RESTORE know
anything. None knows how a client waits: a handler that has nothing to return calls ``ctx.block``.
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
