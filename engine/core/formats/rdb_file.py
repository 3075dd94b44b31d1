"""RDB files of Redis: read from the first byte to the check sum, to say whether one is whole and where it is not.

The engine does not load such files. What is checked is the form of everything, of streams and listpacks down to the
last number; of other packed values (ziplists, intsets) only that they are there.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.formats import rdb_stream
from engine.core.formats.rdb import BadFormatError, Reader, crc64, read_listpack
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream

_MAGIC = b"REDIS"
_NEWEST = 14
_EXPIRE_MS, _EXPIRE_S, _SELECT, _RESIZE, _AUX, _FREQ, _IDLE = 0xFC, 0xFD, 0xFE, 0xFB, 0xFA, 0xF9, 0xF8
_MODULE_AUX, _FUNCTION, _SLOT, _END = 0xF7, 0xF5, 0xF4, 0xFF
_STRING, _LIST, _SET, _SORTED_SET, _HASH, _SORTED_SET_2, _QUICKLIST_2 = 0, 1, 2, 3, 4, 5, 18
#: One string: a zipmap, a ziplist or an intset. A quicklist is many of them.
_PACKED, _QUICKLIST = (9, 10, 11, 12, 13), 14
#: One listpack; those with expiring fields begin with the nearest expiry.
_LISTPACKS, _EXPIRING_LISTPACK, _EXPIRING_HASH = (16, 17, 20), 25, 24


class RdbFileError(Exception):
    """The file is damaged, or holds what is not known here. ``offset`` is the byte where the damaged thing begins."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


@dataclass(frozen=True, slots=True)
class Summary:
    """What a whole file holds. ``has_sum`` is false where the server that wrote it made none (rdbchecksum no)."""

    version: int
    keys: int
    has_sum: bool


def check(data: bytes) -> Summary:
    """What the file holds; an RdbFileError where it is damaged."""
    version = data[5:9]
    if data[:5] != _MAGIC or not version.isdigit():
        raise RdbFileError(0, "this is no RDB file")
    if int(version) > _NEWEST:
        raise RdbFileError(5, f"RDB version {int(version)} is not known here")
    reader, keys, at = Reader(data, 9), 0, 9
    try:
        while (code := reader.byte()) != _END:
            keys += _skip_one(reader, code)
            at = reader.at
        at = reader.at
        total = reader.unpack("<Q") if int(version) >= 5 else 0
    except (BadFormatError, LookupError, ValueError, StopIteration, RuntimeError, OverflowError) as error:
        if reader.at >= len(data) or not str(error):
            raise RdbFileError(at, f"what begins here is damaged or cut off, behind {keys} whole keys") from None
        raise RdbFileError(at, f"{error}, behind {keys} whole keys") from None
    if reader.at != len(data):
        raise RdbFileError(reader.at, f"{len(data) - reader.at} bytes stand behind the end")
    if total and total != crc64(data[:at]):
        raise RdbFileError(at, "the check sum is not that of the file: something in it has changed")
    return Summary(int(version), keys, bool(total))


def _skip_one(reader: Reader, code: int) -> int:
    """Read what begins with ``code``; how many keys that is."""
    if code == _EXPIRE_MS:
        reader.read(8)
    elif code == _EXPIRE_S:
        reader.read(4)
    elif code == _FREQ:
        reader.byte()
    elif code in (_SELECT, _IDLE):
        reader.length()
    elif code == _RESIZE:
        _lengths(reader, 2)
    elif code == _SLOT:
        _lengths(reader, 3)
    elif code == _AUX:
        _strings(reader, 2)
    elif code == _FUNCTION:
        reader.string()
    elif code == _MODULE_AUX:
        raise BadFormatError("data of a module cannot be checked")
    else:
        reader.string()
        _value(reader, code)
        return 1
    return 0


def _value(reader: Reader, kind: int) -> None:
    if kind == _STRING or kind in _PACKED:
        reader.string()
    elif kind in (_LIST, _SET, _QUICKLIST):
        _strings(reader, reader.length())
    elif kind == _HASH:
        _strings(reader, 2 * reader.length())
    elif kind == _SORTED_SET:
        for _ in range(reader.length()):
            reader.string()
            size = reader.byte()
            reader.read(size if size < 253 else 0)
    elif kind == _SORTED_SET_2:
        for _ in range(reader.length()):
            reader.string()
            reader.read(8)
    elif kind in _LISTPACKS:
        read_listpack(reader.string())
    elif kind == _EXPIRING_LISTPACK:
        reader.read(8)
        read_listpack(reader.string())
    elif kind == _EXPIRING_HASH:
        reader.read(8)
        for _ in range(reader.length()):
            reader.length()
            _strings(reader, 2)
    elif kind == _QUICKLIST_2:
        for _ in range(reader.length()):
            packed, element = reader.length() == 2, reader.string()
            if packed:
                read_listpack(element)
    elif kind in rdb_stream.FORMS:
        for _ in rdb_stream.load(reader, kind, Stream(Storage()), lambda: (100, 100)):
            pass
    else:
        raise BadFormatError(f"a value of type {kind} is not known here")


def _strings(reader: Reader, count: int) -> None:
    for _ in range(count):
        reader.string()


def _lengths(reader: Reader, count: int) -> None:
    for _ in range(count):
        reader.length()
