"""RDB files for tests: written from a core, in encodings of old or other servers, and read into a core."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from engine.core.dispatch import Core
from engine.core.formats.damage import FIELD_EXPIRY, FUNCTIONS, LISTS, SETS, SORTED_SETS
from engine.core.formats.rdb import value_reader, writer
from engine.core.formats.rdb.primitives import crc64, elements, length, listpack_of, string
from engine.core.formats.rdb.reader import Loading, Summary
from engine.core.keyspace import image
from tests.engine.core.formats.real_files import PARTS
from tests.engine.shell.durability.workload import Driver, driven, empty_core, errors, small_segments
from tests.harness.replay import NOW_US, new_core

NOW = NOW_US // 1000


def written(core: Core, version: int = 10) -> bytes:
    """Return the RDB file of a core."""
    return b"".join(writer.write(image.capture(core.databases, core.changes.now), version))


def read(data: bytes, *, now: int | None = NOW) -> tuple[Core, Summary]:
    """Return a core with a file's content and the reader's summary."""
    core = empty_core()
    core.changes.set_time(NOW_US)
    makers = value_reader.makers(core.config, core.streams.new)
    loading = Loading(memoryview(data), core.databases, makers, now=now)
    while loading.step():
        pass
    core.changes.replaying = False
    return core, loading.summary


def file_of(*parts: bytes, magic: bytes = b"REDIS0011") -> bytes:
    """Return a file of these parts with a valid checksum."""
    body = b"".join((magic, *parts, b"\xff"))
    return body + crc64(body).to_bytes(8, "little")


def key(kind: int, name: bytes, *parts: bytes) -> bytes:
    """Return the bytes of a key: its type code, name and value."""
    return b"".join((bytes((kind,)), string(name), *parts))


def ziplist(words: Iterable[bytes]) -> bytes:
    """Return a ziplist of words and of numbers of every width."""
    body, before, count = b"", 0, 0
    for word in words:
        entry = bytes((before,)) if before < 254 else b"\xfe" + struct.pack("<I", before)
        if word.lstrip(b"-").isdigit():
            value = int(word)
            if 0 <= value <= 12:
                entry += bytes((0xF1 + value,))
            else:
                widths = ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8))
                code, width = next(pair for pair in widths if -(1 << 8 * pair[1] - 1) <= value < 1 << 8 * pair[1] - 1)
                entry += bytes((code,)) + value.to_bytes(width, "little", signed=True)
        elif len(word) < 64:
            entry += bytes((len(word),)) + word
        elif len(word) < 1 << 14:
            entry += struct.pack(">H", 0x4000 | len(word)) + word
        else:
            entry += b"\x80" + struct.pack(">I", len(word)) + word
        body, before, count = body + entry, len(entry), count + 1
    return struct.pack("<IIH", len(body) + 11, 10, count) + body + b"\xff"


def intset(width: int, members: Iterable[int]) -> bytes:
    """Return an intset."""
    parts = [member.to_bytes(width, "little", signed=True) for member in members]
    return struct.pack("<II", width, len(parts)) + b"".join(parts)


#: Elements with every width of a number and every encoding of a length in a ziplist and a listpack.
WORDS = [b"a", b"x" * 70, b"y" * 20_000, b"0", b"12", b"-1", b"127", b"-129", b"40000", b"-9000000", b"1" + b"0" * 18]

#: Members of a sorted set with their scores.
SCORES = [(b"low", -math.inf), (b"7", -5.5), (b"x" * 60, 1024.0), (b"high", math.inf)]


def packed(data: bytes) -> bytes:
    """Return the data as an RDB string without compression."""
    return length(len(data)) + data


def old_forms() -> bytes:
    """Return hashes in each encoding of servers since Redis 5.0, and keys with expiry and idle times."""
    pairs = [word for at, word in enumerate(WORDS) for word in (b"f%d" % at, word)]
    return file_of(
        key(4, b"hash", length(len(WORDS)), *map(string, pairs)),
        key(13, b"hash ziplist", packed(ziplist(pairs))),
        key(16, b"hash listpack", packed(listpack_of(elements(pairs)))),
        b"\xfc" + struct.pack("<q", NOW + 100_000),
        b"\xf9\x07\xf8" + length(60),
        key(0, b"expires", string(b"later")),
        b"\xfc" + struct.pack("<q", NOW - 1),
        key(0, b"expired", string(b"gone")),
    )


def expiring_hashes() -> dict[str, bytes]:
    """Return files with a hash whose field f expires at NOW + 5 and whose field g does not, one for each encoding."""
    nearest = struct.pack("<q", NOW + 5)
    table = [length(2), length(1), *map(string, (b"f", b"v")), length(0), *map(string, (b"g", b"w"))]
    words = [b"f", b"v", b"%d" % (NOW + 5), b"g", b"w", b"0"]
    of_valkey = [length(2), *map(string, (b"f", b"v")), nearest, *map(string, (b"g", b"w")), struct.pack("<q", -1)]
    return {
        "hash of 7.4": file_of(key(24, b"k", nearest, *table)),
        "small hash of 7.4": file_of(key(25, b"k", nearest, packed(listpack_of(elements(words))))),
        "hash of Valkey": file_of(key(22, b"k", *of_valkey), magic=b"VALKEY080"),
    }


def unsupported() -> dict[str, tuple[str, bytes]]:
    """Return the name of the type and a file for each encoding of types that the engine does not store."""
    score = struct.pack("<d", 1.5)
    plain_hash = key(4, b"k", length(1), string(b"f"), string(b"v"))
    number = sum(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".index(letter) << 10 + 6 * at
        for at, letter in enumerate(reversed("vectorset"))
    )
    module = key(7, b"k", length(number), b"\x02\x05\x05", string(b"x"), b"\x04", score, b"\x03abcd", b"\x00")
    with_words = [word for member, points in SCORES for word in (member, b"%.17g" % points)]
    with_doubles = [part for member, points in SCORES for part in (string(member), struct.pack("<d", points))]
    values = {
        "list": (LISTS, key(1, b"k", length(len(WORDS)), *map(string, WORDS))),
        "quicklist": (LISTS, key(14, b"k", length(2), packed(ziplist(WORDS)), packed(ziplist(WORDS[:3])))),
        "quicklist2": (
            LISTS,
            key(18, b"k", length(2), length(2), packed(listpack_of(elements(WORDS))), length(1), packed(b"plain")),
        ),
        "set": (SETS, key(2, b"k", length(len(WORDS)), *map(string, WORDS))),
        "intset": (SETS, key(11, b"k", packed(intset(2, [-5, 1])))),
        "set listpack": (SETS, key(20, b"k", packed(listpack_of(elements([b"b", b"a", b"7"]))))),
        "scores": (SORTED_SETS, key(5, b"k", length(4), *with_doubles)),
        "scores ziplist": (SORTED_SETS, key(12, b"k", packed(ziplist(with_words)))),
        "scores listpack": (SORTED_SETS, key(17, b"k", packed(listpack_of(elements(with_words))))),
        "auxiliary field": (FIELD_EXPIRY, _aux(b"pystreams-hash", b"4000000000000:66") + plain_hash),
        "function": (FUNCTIONS, b"\xf5" + string(b"#!lua name=lib\nredis.register_function('f', f)")),
        "module": ("values of the module type vectorset", module),
        "data of a module": (
            "data of the module type vectorset",
            b"\xf7" + length(number) + b"\x02\x01\x05" + string(b"x") + b"\0",
        ),
    }
    files = {name: (kind, file_of(item)) for name, (kind, item) in values.items()}
    return files | {name: (FIELD_EXPIRY, data) for name, data in expiring_hashes().items()}


def _aux(name: bytes, value: bytes) -> bytes:
    return b"\xfa" + string(name) + string(value)


def samples() -> list[bytes]:
    """Return small files that together hold every encoding."""
    core = new_core()
    driver = Driver(core, 7)
    with small_segments():
        driver.drive(60)
    tiny = new_core()
    driver = Driver(tiny, 5)
    for line in ("XADD s 1-1 f v", "XADD s 2-1 f 12345", "XADD s 3-3 g v h w", "XDEL s 2-1", "XGROUP CREATE s g 0"):
        driver.run(*line.split())
    for line in ("XREADGROUP GROUP g c STREAMS s >", "XNACK s g FAIL IDS 1 1-1", "XADD s IDMP p i * f v", "SET k v"):
        driver.run(*line.split())
    files = [written(source, version) for source in (core, tiny, *map(filled, PARTS)) for version in (10, 11, 14)]
    return [*files, old_forms(), *(data for _, data in unsupported().values())]


def filled(*parts: str) -> Core:
    """Return a core with the keys of these parts of ``real_files``."""
    core = new_core()
    driver = Driver(core, 1)
    for name in parts:
        for words in PARTS[name]():
            reply = driver.run(*words)
            assert not errors(reply), (words, reply)
    return core


__all__ = ["driven", "file_of", "key", "old_forms", "packed", "read", "samples", "unsupported", "written"]
