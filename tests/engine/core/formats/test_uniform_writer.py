"""The fast path for writing a node of a stream gives the slow path's bytes, or declines."""

from __future__ import annotations

from array import array
from random import Random

from engine.core.formats.rdb.streams import stream_writer
from engine.core.formats.rdb.streams.stream_writer import _node
from engine.core.formats.rdb.streams.uniform_writer import uniform_nodes
from engine.core.streams.segment import SealedQueue, Segment
from streamwire.frames import frame

WORDS = [
    b"",
    b"0",
    b"-1",
    b"007",
    b"12",
    b"4095",
    b"4096",
    b"99999999999",
    b"x",
    b"21.5",
    b"y" * 63,
    b"-",
    b"-x",
    b"-0",
    b"-128",
    b"-4096",
    b"-4097",
    b"32768",
    b"8388608",
    b"-2147483648",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"w" * 64,
    b"w" * 125,
    b"w" * 126,
    b"w" * 999,
    b"*3",
    b"$1",
]
#: Parts of values that look like lines of RESP.
EVIL = [b"*2", b"\r\n", b"a\r\nb", b"$1\r\nx\r\n", b"*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n", b"z" * 1000]


def entries(random: Random) -> tuple[list[bytes], array[int], array[int]]:
    count, width = random.randint(1, 12), random.randint(1, 4)
    names = [random.choice(WORDS) for _ in range(width)]
    first = random.choice((0, 1, 1795322050333, (1 << 64) - 10_000_000))
    steps = random.choice(([0], [0, 1, 3], [5000, 1_000_000 // 12]))
    frames, ms, seq = [], array("Q"), array("Q")
    time, number = first, random.choice((0, 7, (1 << 64) - 1))
    for _ in range(count):
        values = [random.choice(WORDS) for _ in names]
        fields = [word for pair in zip(names, values, strict=True) for word in pair]
        if random.random() < 0.08:
            fields[random.randrange(len(fields))] = random.choice(EVIL)
        if random.random() < 0.03:
            fields = fields[: -2 if width > 1 else None]
        frames.append(frame(b"%d-%d" % (time, number), fields))
        ms.append(time)
        seq.append(number)
        step = random.choice(steps)
        time, number = time + step, random.randint(0, 9) if step else min(number + 1, (1 << 64) - 1)
    return frames, ms, seq


def test_the_fast_path_writes_the_same_nodes():
    """For any entries, the fast path gives the slow path's bytes or None, and it accepts most uniform entries."""
    random = Random(5)
    taken = 0
    for _ in range(1500):
        frames, ms, seq = entries(random)
        size = random.randint(1, len(frames))
        quick = uniform_nodes(b"".join(frames), (ms, seq), size)
        if quick is not None:
            taken += 1
            ranges = [slice(at, at + size) for at in range(0, len(frames), size)]
            assert b"".join(quick) == b"".join(_node(frames[some], ms[some], seq[some]) for some in ranges)
    assert 600 < taken < 1450


def test_values_that_look_like_frames_are_declined():
    """The fast path declines two entries that look like three, because a value contains a whole frame."""
    ms, seq = array("Q", [1, 1, 1]), array("Q", [1, 2, 3])
    evil = b"v\r\n*2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nf\r\n$1\r\nw"
    frames = [frame(b"1-1", [b"f", evil]), frame(b"1-2", [b"f", b"v"])]
    assert uniform_nodes(b"".join(frames), (ms, seq), 3) is None


def test_few_entries_are_written_one_by_one(monkeypatch):
    """A segment of up to a hundred entries takes the slow path, which is faster for few entries."""
    asked: list[int] = []

    def alike(data: bytes, ids: tuple[array[int], array[int]], size: int) -> list[bytes] | None:
        asked.append(len(ids[0]))
        return uniform_nodes(data, ids, size)

    monkeypatch.setattr(stream_writer, "uniform_nodes", alike)
    for count, expected in ((10, []), (100, []), (1000, [1000])):
        segment = Segment(SealedQueue())
        for number in range(1, count + 1):
            segment.append(number << 64, frame(b"%d-0" % number, [b"f", b"%d" % number]))
        written = b"".join(stream_writer._whole_nodes(segment, 0, count, 100))
        assert asked == expected
        slow = (
            stream_writer._node(segment.frames(at, at + 100), *segment.id_columns(at, min(at + 100, count)))
            for at in range(0, count, 100)
        )
        assert written == b"".join(slow)
        asked.clear()
