"""The type bytes of values in Redis's RDB format, for reading and writing."""

from __future__ import annotations

STRING, LIST, SET, SORTED_SET, HASH, SORTED_SET_2, MODULE = 0, 1, 2, 3, 4, 5, 7
HASH_ZIPMAP, LIST_ZIPLIST, INTSET, SORTED_SET_ZIPLIST, HASH_ZIPLIST, QUICKLIST = 9, 10, 11, 12, 13, 14
HASH_LISTPACK, SORTED_SET_LISTPACK, QUICKLIST_2, SET_LISTPACK = 16, 17, 18, 20
#: Hashes with expiring fields: Redis's two encodings, and Valkey's.
EXPIRING_HASH, EXPIRING_LISTPACK, VALKEY_HASH = 24, 25, 22
#: The file version that introduced expiring hash fields.
EXPIRING_SINCE = 12
#: The newest version of Redis's files, the version of Valkey 9's own files, and the version of Redis's files whose
#: encodings are the same as Valkey 9's.
NEWEST_VERSION, VALKEY_VERSION, _LIKE = 14, 80, 11


def forms_version(version: int) -> int:
    """Return the version of Redis's files with the same encodings as this version."""
    return _LIKE if version == VALKEY_VERSION else version


#: Encodings of a list's nodes: one element, or a listpack of several.
PLAIN, PACKED = 1, 2
#: Elements per step.
ELEMENTS = 64
