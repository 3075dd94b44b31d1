"""Commands of a log that concern types that the engine does not store.

A log is refused if it has such commands, and its rest is loaded with ``skip-unsupported-types``. A key with a value of
an unsupported type is then left out until a command replaces or deletes the value: commands that change it are skipped,
and a key to which it is renamed or copied is left out, too. Lists, sets and sorted sets disappear with their last
element. So a command that succeeds only on another type ends the omission.
"""

from __future__ import annotations

from engine.core.dispatch import Core
from engine.core.formats.unsupported_types import FIELD_EXPIRY, UnsupportedTypes, shown, shown_library
from engine.core.table.registry import called_by
from engine.core.table.unsupported import family_of

#: Commands that change a string or hash in place, so that it keeps what the engine lacks, such as fields that expire.
_IN_PLACE = frozenset(b"append decr decrby incr incrby hset hsetnx hmset hdel hincrby hincrbyfloat".split())
#: Commands that concern a key with a value of any type, and change nothing that the engine stores.
_OF_ANY_TYPE = frozenset((b"expire", b"expireat", b"pexpire", b"pexpireat", b"persist", b"touch"))
#: Families whose values are strings or hashes, so that the commands of `_IN_PLACE` may change them.
_LIKE_OURS = frozenset(
    (
        FIELD_EXPIRY,
        "SETEX and PSETEX (unlike SET with EX or PX)",
        "other string commands",
        "bit commands",
        "HyperLogLogs",
    )
)
#: Commands that move an element from their first key to their second.
_TWO_KEYS = frozenset((b"rpoplpush", b"brpoplpush", b"lmove", b"blmove", b"smove"))
_MOVES = frozenset((b"rename", b"renamenx", b"copy", b"move"))


class LeftOutKeys:
    """The keys of one log that are left out. ``found`` counts them, and has those of the log's base.

    ``skips``: whether the rest of the log is loaded. Otherwise the caller discards the core, so no command runs after
    the first one that is left out.
    """

    def __init__(self, core: Core, found: UnsupportedTypes, *, skips: bool) -> None:
        self._core = core
        self._found = found
        self._skips = skips
        self._keys = found.keys if found.keys is not None else {}
        self._counted = set(self._keys)

    def leaves_out(self, db: int, argv: list[bytes], offset: int) -> bool:
        """Return whether a command must not run."""
        family = family_of(argv[0])
        if family is not None:
            self._add(family.decode(), db, argv, offset)
            return True
        if self._found and not self._skips:
            return True
        return bool(self._keys) and self._concerns(db, argv)

    def leave_out_value(self, kind: str, key: bytes, db: int, offset: int) -> None:
        """Leave out a key whose value has an unsupported type."""
        if (db, key) not in self._counted:
            self._counted.add((db, key))
            self._found.add_key(kind, key, db, offset)
        self._mark(db, key, kind)

    def _add(self, family: str, db: int, argv: list[bytes], offset: int) -> None:
        keys = _keys_of(argv)
        for key in keys:
            self.leave_out_value(family, key, db, offset)
        if not keys:
            self._found.add(family, _without_key(argv), offset)

    def _mark(self, db: int, key: bytes, kind: str) -> None:
        self._keys[db, key] = kind
        if db < len(self._core.databases):
            self._core.databases[db].delete(key)

    def _is_left_out(self, db: int, key: bytes) -> bool:
        """Return whether the key is left out; it is not if a later command has created it."""
        if (db, key) in self._keys and self._core.databases[db].holds(key):
            del self._keys[db, key]
        return (db, key) in self._keys

    def _concerns(self, db: int, argv: list[bytes]) -> bool:
        name = argv[0].lower()
        if name in (b"flushall", b"flushdb"):
            for where in [where for where in self._keys if name == b"flushall" or where[0] == db]:
                del self._keys[where]
            return False
        if name == b"swapdb":
            self._swap(int(argv[1]), int(argv[2]))
            return False
        command = called_by(argv)
        keys = () if command is None or not command.arity_fits(len(argv)) else command.keys.of(argv)
        left_out = [key for key in keys if self._is_left_out(db, key)]
        if not left_out:
            return False
        if name in _MOVES and argv[1] in left_out:
            self._move(name, db, argv)
            return True
        kind = self._keys[db, left_out[0]]
        if name in _OF_ANY_TYPE or (name in _IN_PLACE and kind in _LIKE_OURS):
            return True
        for key in left_out:
            del self._keys[db, key]
        return False

    def _move(self, name: bytes, db: int, argv: list[bytes]) -> None:
        """Follow a value that is left out to its new key."""
        target_db, target = db, argv[2]
        if name == b"move":
            target_db, target = int(argv[2]), argv[1]
        elif b"DB" in map(bytes.upper, argv[3:]):
            target_db = int(argv[4 if argv[3].upper() == b"DB" else 5])
        kind = self._keys[db, argv[1]]
        if name != b"copy":
            del self._keys[db, argv[1]]
        self._mark(target_db, target, kind)

    def _swap(self, first: int, second: int) -> None:
        other = {first: second, second: first}
        moved = {(other.get(db, db), key): kind for (db, key), kind in self._keys.items()}
        self._keys.clear()
        self._keys.update(moved)


def count_unsupported(argv: list[bytes], offset: int, found: UnsupportedTypes) -> None:
    """Count the items of a command of an unsupported type, in a part of a log whose data is not loaded."""
    family = family_of(argv[0])
    if family is not None:
        keys = map(shown, _keys_of(argv))
        for item in {f"key '{key}'" for key in keys} or {_without_key(argv)}:
            found.add(family.decode(), item, offset)


def _without_key(argv: list[bytes]) -> str:
    """Return a description of a command that names no key."""
    is_library = argv[0].lower() == b"function" and len(argv) > 1
    return shown_library(argv[-1]) if is_library else f"'{shown(argv[0])}'"


def _keys_of(argv: list[bytes]) -> list[bytes]:
    """Return the keys that an unsupported command may change; the scripts of old servers name theirs."""
    name = argv[0].lower()
    if name in (b"function", b"script"):
        return []
    if name in (b"eval", b"evalsha"):
        return argv[3 : 3 + int(argv[2])] if argv[2:] and argv[2].isdigit() else []
    if name == b"bitop":
        return argv[2:3]
    if name == b"msetnx":
        return argv[1::2]
    if name == b"msetex":
        return argv[2 : 2 + 2 * int(argv[1]) : 2] if argv[1:] and argv[1].isdigit() else []
    if name in (b"sort", b"georadius", b"georadiusbymember"):
        words = [word.upper() for word in argv]
        return [argv[at + 1] for at, word in enumerate(words[:-1]) if word in (b"STORE", b"STOREDIST")]
    return argv[1:3] if name in _TWO_KEYS else argv[1:2]
