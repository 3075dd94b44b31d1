"""Streams on disk and streams in memory: one stream of two-field entries with random values.

The modes, which are measured one after another, run with a log. The output has these columns for each size:

* append/s: entries per second, since the previous size
* RSS MB: resident memory
* XRANGE ms: duration of an XRANGE of 100 entries at a random position, median and 99th percentile
* read/s: entries per second when reading from the start in pages of 10,000
* rewrite s: duration of a BGREWRITEAOF
* start s: duration of a restart until the engine replies
* disk MB: size of all files

    python -m benchmarks.engine.larger_than_memory [--sizes 1000000 10000000] [--modes memory disk]
        [--directory DIRECTORY]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from benchmarks import servers
from benchmarks.engine.client import Connection, command
from benchmarks.engine.memory import resident_bytes

KEY = "stream"
_AT_ONCE, _PAGE, _MOST_READ, _POSITIONS = 1000, 10_000, 2_000_000, 200
_HEAD = f"{'mode':8} {'entries':>12} {'append/s':>10} {'RSS MB':>8} {'XRANGE ms':>14} {'read/s':>10} "
_HEAD += f"{'rewrite s':>10} {'start s':>8} {'disk MB':>8}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--modes", nargs="+", default=["memory", "disk"], choices=["memory", "disk"])
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="directory for temporary data")
    options = parser.parse_args()
    servers.end_with_this_process()
    print(_HEAD, flush=True)
    for mode in options.modes:
        with tempfile.TemporaryDirectory(prefix="bench-larger-", dir=options.directory) as directory:
            measure(mode, sorted(options.sizes), directory)


def measure(mode: str, sizes: list[int], directory: str) -> None:
    """Measure one mode: fill the stream up to each size, and measure at this size."""
    start = [*servers.engine_command()[:-4], "--appendonly", "yes", "--stream-storage", mode]
    requests, there = entries(), 0
    for size in sizes:
        with servers.running(mode, start, directory) as server, Connection(server.port, 600) as connection:
            began = time.monotonic()
            for number in range((size - there) // _AT_ONCE):
                connection.lines(requests[number % len(requests)], 2 * _AT_ONCE)
            appended = (size - there) / (time.monotonic() - began)
            there = size
            resident = settled_memory(server.pid) / 1e6
            times = cold_pages(connection)
            read = pages_in_order(connection)
            rewritten = rewrite(connection)
        began = time.monotonic()
        with servers.running(mode, start, directory) as server, Connection(server.port) as connection:
            started = time.monotonic() - began
            assert connection.reply(command("XLEN", KEY)) == b":%d\r\n" % size
        cells = f"{statistics.median(times):.2f} {times[int(len(times) * 0.99)]:.2f}"
        print(
            f"{mode:8} {size:12,} {appended:10,.0f} {resident:8.0f} {cells:>14} {read:10,.0f} {rewritten:10.2f} "
            f"{started:8.2f} {on_disk(directory) / 1e6:8.0f}",
            flush=True,
        )


def entries() -> list[bytes]:
    """Return pipelines of XADD with random values."""
    chooser = random.Random(4)
    rows = [(str(chooser.randrange(100_000)), f"{chooser.uniform(0, 50):.1f}") for _ in range(100 * _AT_ONCE)]
    commands = [
        command("XADD", KEY, "*", "sensor-id", sensor, "temperature", temperature) for sensor, temperature in rows
    ]
    return [b"".join(commands[at : at + _AT_ONCE]) for at in range(0, len(commands), _AT_ONCE)]


def settled_memory(pid: int) -> int:
    """Return the resident memory of the server in bytes, once it is stable."""
    rests = [resident_bytes(pid)]
    while len(rests) < 4 or max(rests[-3:]) - min(rests[-3:]) > 1 << 20:
        time.sleep(1)
        rests.append(resident_bytes(pid))
    return rests[-1]


def cold_pages(connection: Connection) -> list[float]:
    """Return the durations of XRANGEs at random positions, in milliseconds, ascending. The files may be in the system's
    cache.
    """
    first, last = (
        int(connection.reply(command(*words, "COUNT", 1)).split(b"\r\n")[3].partition(b"-")[0]) for words in _ENDS
    )
    chooser, times = random.Random(5), []
    for _ in range(_POSITIONS):
        request = command("XRANGE", KEY, f"{chooser.randrange(first, last)}-0", "+", "COUNT", 100)
        began = time.perf_counter()
        connection.whole(request)
        times.append((time.perf_counter() - began) * 1000)
    return sorted(times)


_ENDS = (("XRANGE", KEY, "-", "+"), ("XREVRANGE", KEY, "+", "-"))


def pages_in_order(connection: Connection) -> float:
    """Return the entries per second of reading from the start."""
    done, start = 0, b"-"
    began = time.monotonic()
    while done < _MOST_READ:
        reply = connection.reply(command("XRANGE", KEY, start, "+", "COUNT", _PAGE))
        if reply == b"*0\r\n":
            break
        done += int(reply[1 : reply.index(b"\r\n")])
        start = b"(" + reply[reply.rindex(b"*2\r\n$") :].split(b"\r\n")[2]
    return done / (time.monotonic() - began)


def rewrite(connection: Connection) -> float:
    """Return the seconds until a new base of the log is in use."""
    while b"in_progress:1" in connection.reply(command("INFO", "persistence")):
        time.sleep(0.05)
    began = time.monotonic()
    connection.reply(command("BGREWRITEAOF"))
    while True:
        info = connection.reply(command("INFO", "persistence"))
        if b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info:
            return time.monotonic() - began
        time.sleep(0.005)


def on_disk(directory: str) -> int:
    """Return the total size of all files in bytes."""
    size = 0
    for path in Path(directory).rglob("*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size if path.is_file() else 0
    return size


if __name__ == "__main__":
    main()
