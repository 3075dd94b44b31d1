"""More cases of stream speed, in addition to `benchmarks.engine.cases`: XADD variants, cold reads, groups, removals.

If one client in Python would be the bottleneck (many clients, one command at a time), ``redis-benchmark`` is the
client. Entries have explicit IDs if later commands name them, so that requests can be prepared before the clock starts.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence

from benchmarks.engine.cases import KEY, Case, expect_length, flush, frame_bytes, nothing
from benchmarks.engine.client import Connection, command

_ENTRIES = 100_000
#: More entries than fit in the engine's cache of decompressed entries.
_COLD_ENTRIES = 1_500_000


def _sends(name: str, commands: Sequence[bytes], pipeline: int, check: Callable[[Connection], None]) -> Case:
    requests = [b"".join(commands[at : at + pipeline]) for at in range(0, len(commands), pipeline)]

    def work(connection: Connection) -> None:
        for request in requests:
            connection.lines(request, 2 * pipeline)

    return Case(name, len(commands), flush, work, check)


def _shapes() -> list[Case]:
    chooser = random.Random(2)
    readings = [f"{chooser.uniform(10, 30):.1f}" for _ in range(_ENTRIES)]
    five = [
        command("XADD", KEY, "*", *(word for field in range(5) for word in (f"field-{field}", reading)))
        for reading in readings
    ]
    large = [command("XADD", KEY, "*", "reading", reading, "body", "x" * 1024) for reading in readings[:20_000]]
    ten = [
        command("XADD", f"{KEY}:{number % 10}", "*", "sensor-id", "1234", "temperature", reading)
        for number, reading in enumerate(readings)
    ]
    return [
        _sends("XADD 5 fields, 1000", five, 1000, expect_length(len(five))),
        _sends("XADD 1 KiB, 1000", large, 1000, expect_length(len(large))),
        _sends("XADD 10 streams, 1000", ten, 1000, nothing),
    ]


def _by_benchmark(name: str, entries: int, prepare: Callable[[Connection], None], arguments: list[str]) -> Case | None:
    program = shutil.which("redis-benchmark")
    if program is None:
        return None

    def work(connection: Connection) -> None:
        port = connection.url.rsplit(":", 1)[1]
        subprocess.run([program, "-p", port, "-q", *arguments], check=True, capture_output=True, timeout=120)

    return Case(name, entries, prepare, work, nothing)


def _explicit(connection: Connection, entries: int = _ENTRIES) -> None:
    """Add a stream with the IDs 1-1, 2-1, ... and a group that has read nothing."""
    flush(connection)
    for first in range(1, entries, 1000):
        request = [
            command("XADD", KEY, f"{number}-1", "sensor-id", number, "temperature", "19.8")
            for number in range(first, first + 1000)
        ]
        connection.lines(b"".join(request), 2000)
    connection.reply(command("XGROUP", "CREATE", KEY, "g", 0))


def _delivered(connection: Connection) -> None:
    """Add the stream of `_explicit`, with all entries pending for one consumer."""
    _explicit(connection)
    connection.whole(command("XREADGROUP", "GROUP", "g", "c", "STREAMS", KEY, ">"))


def _ids(first: int, count: int) -> list[str]:
    return [f"{number}-1" for number in range(first, first + count)]


def _each(name: str, prepare: Callable[[Connection], None], requests: list[bytes], entries: int = _ENTRIES) -> Case:
    def work(connection: Connection) -> None:
        for request in requests:
            connection.whole(request)

    return Case(name, entries, prepare, work, nothing)


def _groups() -> list[Case]:
    starts = range(1, _ENTRIES, 1000)
    read_and_ack = []
    for first in starts:
        read_and_ack.append(command("XREADGROUP", "GROUP", "g", "c", "COUNT", 1000, "STREAMS", KEY, ">"))
        read_and_ack.append(command("XACK", KEY, "g", *_ids(first, 1000)))
    claims = [command("XCLAIM", KEY, "g", "d", 0, *_ids(first, 1000)) for first in starts]
    autoclaims = [command("XAUTOCLAIM", KEY, "g", "d", 0, f"{first}-1", "COUNT", 1000) for first in starts]
    reads = [command("XREAD", "COUNT", 1000, "STREAMS", KEY, f"{first - 1}-1") for first in starts]
    return [
        _each("XREAD COUNT 1000", _explicit, reads),
        _each("XREADGROUP 1000 + XACK", _explicit, read_and_ack),
        _each("XCLAIM of 1000", _delivered, claims),
        _each("XAUTOCLAIM of 1000", _delivered, autoclaims),
    ]


def _removals() -> list[Case]:
    chooser = random.Random(3)
    chosen = chooser.sample(range(1, _ENTRIES + 1), _ENTRIES // 5)
    deletions = [
        b"".join(command("XDEL", KEY, f"{number}-1") for number in chosen[at : at + 100])
        for at in range(0, len(chosen), 100)
    ]
    trims = [command("XTRIM", KEY, "MAXLEN", left) for left in range(_ENTRIES - 1000, -1, -1000)]
    return [
        _each("XDEL of random IDs", _explicit, deletions, len(chosen)),
        _each("XTRIM by 1000", _explicit, trims),
    ]


def _cold() -> Case:
    requests = [command("XRANGE", KEY, f"{first}-1", "+", "COUNT", 10_000) for first in range(1, _COLD_ENTRIES, 10_000)]

    def prepare(connection: Connection) -> None:
        if connection.reply(command("XLEN", KEY)) != b":%d\r\n" % _COLD_ENTRIES:
            _explicit(connection, _COLD_ENTRIES)
            # Wait until segments are packed. The engine packs a few at a time, one second after they are full.
            time.sleep(4)

    def work(connection: Connection) -> None:
        for request in requests:
            connection.whole(request)

    return Case("XRANGE 10000, cold", _COLD_ENTRIES, prepare, work, nothing, copied=frame_bytes("1000000-1"))


def stream_cases() -> list[Case]:
    """Return the cases of this module, in the order in which they run."""
    words = ["XADD", KEY, "*", "sensor-id", "1234", "temperature", "19.8"]
    group = ["XREADGROUP", "GROUP", "g", "c__rand_int__", "COUNT", "10", "STREAMS", KEY, ">"]
    many = [
        _by_benchmark("XADD, 4 clients", 40_000, flush, ["-c", "4", "-n", "40000", *words]),
        _by_benchmark("XADD, 4 clients of 16", 200_000, flush, ["-c", "4", "-P", "16", "-n", "200000", *words]),
        _by_benchmark("XREADGROUP 10, 10 clients", 50_000, _explicit, ["-c", "10", "-n", "5000", "-r", "10", *group]),
    ]
    return [*(case for case in many if case), *_shapes(), *_groups(), *_removals(), _cold()]
