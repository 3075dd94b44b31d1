"""The type bytes of values in Redis's RDB format, for reading and writing."""

from __future__ import annotations

from engine.core.formats.unsupported_types import LISTS, SETS, SORTED_SETS

STRING, LIST, SET, SORTED_SET, HASH, SORTED_SET_2, MODULE = 0, 1, 2, 3, 4, 5, 7
HASH_ZIPMAP, LIST_ZIPLIST, INTSET, SORTED_SET_ZIPLIST, HASH_ZIPLIST, QUICKLIST = 9, 10, 11, 12, 13, 14
HASH_LISTPACK, SORTED_SET_LISTPACK, QUICKLIST_2, SET_LISTPACK = 16, 17, 18, 20
#: Redis's encodings of hashes with expiring fields.
EXPIRING_HASH, EXPIRING_LISTPACK = 24, 25
#: Valkey's encoding of hashes with expiring fields.
VALKEY_HASH = 22
#: Type byte of a value that the engine does not store -> name of its type.
UNSUPPORTED = {
    **dict.fromkeys((LIST, LIST_ZIPLIST, QUICKLIST, QUICKLIST_2), LISTS),
    **dict.fromkeys((SET, INTSET, SET_LISTPACK), SETS),
    **dict.fromkeys((SORTED_SET, SORTED_SET_2, SORTED_SET_ZIPLIST, SORTED_SET_LISTPACK), SORTED_SETS),
}
#: The newest version of Redis's files.
NEWEST_VERSION = 14
#: The version of Valkey 9's own files.
VALKEY_VERSION = 80
#: The version of Redis's files that has the same encodings as Valkey 9's files.
_LIKE = 11


def forms_version(version: int) -> int:
    """Return the version of Redis's files with the same encodings as this version."""
    return _LIKE if version == VALKEY_VERSION else version


#: Number of elements written or read per step.
ELEMENTS = 64
