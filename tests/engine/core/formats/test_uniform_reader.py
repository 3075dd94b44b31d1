"""The fast paths for reading stream nodes and compressed strings give the slow paths' results."""

from __future__ import annotations

from random import Random

import pytest

from engine.core.formats.rdb import primitives
from engine.core.formats.rdb.primitives import BadFormatError, at_once, listpack
from engine.core.formats.rdb.streams import stream_reader
from engine.core.formats.rdb.streams.uniform_reader import UniformNodes
from engine.core.protocol import ids
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream

WORDS = [
    *(b"", b"x", b"-", b"-0", b"007", b"21.5", b"\r\n", b"y" * 63, b"z" * 64, b"w" * 125, b"w" * 126, b"v" * 4095),
    *(
        b"%d" % number
        for number in (0, 7, 127, 128, 4095, 4096, -1, -4096, -4097, 32767, -32769, 8388608, 99999, 10000)
    ),
    *(b"%d" % number for number in (1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 63)),
]
#: Exceptions of the slow path for a damaged node.
ERRORS = (BadFormatError, LookupError, ValueError, TypeError, OverflowError)


def nodes_of(random: Random) -> tuple[list[bytes], list[bytes]]:
    """Return the keys and listpacks of a stream, most of them uniform."""
    names = [random.choice((b"sensor", b"12", b"n" * 70, b"x%")) for _ in range(random.randint(1, 3))]
    choices = random.sample(WORDS, random.randint(1, len(WORDS)))
    time, number = random.choice(((0, 0), (1795322050333, 0), (1 << 62, 5)))
    keys, nodes = [], []
    for _ in range(random.randint(1, 9)):
        keys.append(time.to_bytes(8, "big") + number.to_bytes(8, "big"))
        first, count = (time, number), random.randint(1, 5)
        fields = [*names, b"more"] if random.random() < 0.05 else names
        words: list[bytes | int] = []
        for at in range(count):
            if at:
                time, number = random.choice(((time, number + 1), (time + random.choice((1, 5000, 1 << 20)), 0)))
            same = random.random() > 0.02
            words += (2 if same else 0, time - first[0], number - first[1])
            values = [random.choice(choices) for _ in fields]
            words += (
                values if same else [len(fields), *(word for pair in zip(fields, values, strict=True) for word in pair)]
            )
            words.append(len(fields) + 3 if same else 2 * len(fields) + 4)
        nodes.append(listpack([count, 0, len(fields), *fields, 0, *words]))
        time += 1
    return keys, nodes


def slow(keys: list[bytes], nodes: list[bytes]) -> list[tuple[int, bytes]] | None:
    stream = Stream(Storage())
    try:
        for key, node in zip(keys, nodes, strict=True):
            stream_reader._add_node(stream, key, node)
    except ERRORS:
        return None
    return entries_of(stream)


def entries_of(stream: Stream) -> list[tuple[int, bytes]]:
    return [pair for segment, first, last in stream.runs(0, ids.MAX_ID) for pair in segment.pairs(first, last)]


def quick(keys: list[bytes], nodes: list[bytes]) -> tuple[list[tuple[int, bytes]] | None, int]:
    stream, alike = Stream(Storage()), UniformNodes(nodes)
    at_once(alike.find(keys))
    try:
        for number, is_alike in enumerate(alike.are.tolist()):
            if not is_alike:
                stream_reader._add_node(stream, keys[number], nodes[number])
                continue
            for found in alike.entries(number, number + 1):
                if found[2][0] << 64 | found[3][0] <= stream.last_id:
                    return None, 0
                stream.extend(*found)
    except ERRORS:
        return None, 0
    return entries_of(stream), int(alike.are.sum())


def test_the_fast_path_reads_the_same_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any nodes, the fast path gives the slow path's entries, and it accepts most uniform nodes."""
    monkeypatch.setattr("engine.core.formats.rdb.streams.uniform_reader._TABLE_BYTES", 20_000)
    random = Random(8)
    taken = total = 0
    for _ in range(120):
        keys, nodes = nodes_of(random)
        found, alike = quick(keys, nodes)
        assert found == slow(keys, nodes)
        taken, total = taken + alike, total + len(nodes)
    assert 0.5 * total < taken < total


def test_the_fast_path_reports_the_same_damage() -> None:
    """A node with changed bytes is an error in both paths, or gives the same entries in both."""
    random = Random(9)
    errors = 0
    for _ in range(250):
        keys, nodes = nodes_of(random)
        for _ in range(random.randint(1, 2)):
            at = random.randrange(len(nodes))
            node = bytearray(nodes[at])
            offset = random.randrange(min(len(node), 200))
            node[offset] = random.choice(
                (random.randrange(256), node[offset] ^ 1 << random.randrange(8), 0xFF, 0xF4, 0xEF)
            )
            if random.random() < 0.1:
                del node[offset]
            nodes[at] = bytes(node)
        expected = slow(keys, nodes)
        assert quick(keys, nodes)[0] == expected
        errors += expected is None
    assert 50 < errors < 240


def lzf_parts(random: Random) -> tuple[list[bytes], list[int]]:
    """Return compressed strings and their sizes, some of them damaged."""
    parts, sizes = [], []
    for _ in range(random.randint(1, 5)):
        data, size = bytearray(), 0
        for _ in range(random.randint(1, 8)):
            kind = random.choice((1, 1, 2, 3)) if size else 1
            back = random.randint(0, min(max(size - 1, 0), 8191)) if random.random() > 0.02 else size
            if kind == 1:
                run = random.randbytes(random.choice((1, 3, 32)))
                data += bytes((len(run) - 1,)) + run
                size += len(run)
            elif kind == 2:
                count = random.randint(3, 8)
                data += bytes((count - 2 << 5 | back >> 8, back & 255))
                size += count
            else:
                count = random.choice((9, 10, 64, 65, 73, 128, 129, 264))
                data += bytes((224 | back >> 8, count - 9, back & 255))
                size += count
        parts.append(bytes(data[: -1 if random.random() < 0.03 else None]))
        sizes.append(size + (random.random() < 0.02))
    return parts, sizes


def test_many_strings_are_decompressed_like_single_ones() -> None:
    """Decompressing many strings together gives the strings, or the error, of decompressing one by one."""
    random = Random(10)
    errors = 0
    for _ in range(400):
        parts, sizes = lzf_parts(random)
        try:
            expected = b"".join(map(primitives.decompressed, parts, sizes))
        except ValueError:
            errors += 1
            with pytest.raises(ValueError, match=r"."):
                at_once(primitives.decompressed_many(parts, sizes))
        else:
            assert at_once(primitives.decompressed_many(parts, sizes)) == expected
    assert 20 < errors < 300
