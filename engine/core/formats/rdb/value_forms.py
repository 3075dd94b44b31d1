"""The type bytes of values in Redis's RDB format, for those who write and who read them."""

from __future__ import annotations

STRING, LIST, SET, SORTED_SET, HASH, SORTED_SET_2, MODULE = 0, 1, 2, 3, 4, 5, 7
HASH_ZIPMAP, LIST_ZIPLIST, INTSET, SORTED_SET_ZIPLIST, HASH_ZIPLIST, QUICKLIST = 9, 10, 11, 12, 13, 14
HASH_LISTPACK, SORTED_SET_LISTPACK, QUICKLIST_2, SET_LISTPACK = 16, 17, 18, 20
#: Hashes whose fields may expire: Redis's two forms, and Valkey's.
EXPIRING_HASH, EXPIRING_LISTPACK, VALKEY_HASH = 24, 25, 22
#: The version of files from which on fields of hashes expire.
EXPIRING_SINCE = 12
#: The newest version of Redis's files; Valkey 9's own: the forms of Redis's version 11, and hashes that expire.
NEWEST_VERSION, VALKEY_VERSION, _LIKE = 14, 80, 11


def forms_version(version: int) -> int:
    """The version of Redis whose forms a file of this version has."""
    return _LIKE if version == VALKEY_VERSION else version


#: How an element of a list is kept: by itself, or with others in a listpack.
PLAIN, PACKED = 1, 2
#: Elements in one step.
ELEMENTS = 64
