"""Durations that must not grow with untouched data, and memory per entry: a large and a small stream on one server.

The streams have ten million and ten thousand entries. Each command is timed alternately on both streams, so that a slow
moment of the machine affects both. The output has the medians and their ratio, which may be at most 1.5. A million
entries of the large stream are pending, and five thousand of the small stream. Memory is the growth of the process per
entry, after cold segments have been packed, and per pending record.

Run with `python -m benchmarks.engine.flat`.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import servers
from benchmarks.engine.cases import FRAME_ID
from benchmarks.engine.client import Connection, command

SMALL, LARGE, GROUP = "small", "large", "group"
SMALL_ENTRIES, SMALL_PENDING = 10_000, 5_000
#: Maximum ratio of the times, and maximum bytes per entry and per pending record.
MOST_RATIO, MOST_ENTRY_BYTES, MOST_PENDING_BYTES = 1.5, 60.0, 40.0
_PAGE, _READ = 1000, 100
_PAGE_BYTES = 4096
_SETTLE_SECONDS = 60.0
_INTEGER = re.compile(rb":(\d+)")


@dataclass
class Stream:
    """One of the two streams, with some of its pending IDs in random order, and its first and last millisecond."""

    key: str
    pending: list[bytes]
    first_ms: int = 0
    last_ms: int = 0


def fill(connection: Connection, key: str, entries: int) -> None:
    """Add a sensor's two-field entries with varying values."""
    chooser = random.Random(4)
    requests = [
        b"".join(
            command(
                "XADD",
                key,
                "*",
                "sensor-id",
                chooser.randrange(1000, 9999),
                "temperature",
                f"{chooser.uniform(10, 30):.1f}",
            )
            for _ in range(_PAGE)
        )
        for _ in range(50)
    ]
    for number in range(entries // _PAGE):
        connection.lines(requests[number % len(requests)], 2 * _PAGE)


def deliver(connection: Connection, key: str, pending: int) -> Stream:
    """Deliver this many entries to a consumer; return the stream with some of their IDs."""
    connection.reply(command("XGROUP", "CREATE", key, GROUP, 0))
    found: list[bytes] = []
    chooser = random.Random(5)
    for _ in range(pending // _PAGE):
        page = connection.reply(command("XREADGROUP", "GROUP", GROUP, "c", "COUNT", _PAGE, "STREAMS", key, ">"))
        found += chooser.sample(FRAME_ID.findall(page), max(2_000 * _PAGE // pending, 1))
    chooser.shuffle(found)
    return Stream(key, found)


def read(connection: Connection, key: str, entries: int) -> None:
    """Read this many entries from the start."""
    start = b"-"
    for _ in range(entries // _PAGE):
        page = connection.reply(command("XRANGE", key, start, "+", "COUNT", _PAGE))
        start = b"(" + FRAME_ID.findall(page)[-1]


def look_up_ends(connection: Connection, stream: Stream) -> None:
    """Record the times of the stream's first and last entry. The entries are spread about evenly between these."""
    first = FRAME_ID.findall(connection.reply(command("XRANGE", stream.key, "-", "+", "COUNT", 1)))[0]
    last = FRAME_ID.findall(connection.reply(command("XREVRANGE", stream.key, "+", "-", "COUNT", 1)))[0]
    stream.first_ms, stream.last_ms = (int(entry_id.split(b"-")[0]) for entry_id in (first, last))


def times_in_turns(
    connection: Connection, streams: Iterable[Stream], make: Callable[[Stream], bytes], runs: int
) -> list[float]:
    """Return a command's median duration on each stream, in microseconds, after a warm-up of a tenth of the runs."""
    taken: dict[str, list[float]] = {stream.key: [] for stream in streams}
    for number in range(runs + runs // 10):
        for stream in streams:
            request = make(stream)
            begin = time.perf_counter()
            reply = connection.reply(request)
            spent = time.perf_counter() - begin
            if reply.startswith(b"-"):
                raise RuntimeError(reply.decode())
            if number >= runs // 10:
                taken[stream.key].append(spent * 1e6)
    return [statistics.median(times) for times in taken.values()]


def commands() -> list[tuple[str, Callable[[Stream], bytes], int]]:
    """Return the name, the function that makes the request, and the number of timed runs, for each command."""
    chooser = random.Random(6)

    def middle(stream: Stream) -> bytes:
        return command("XRANGE", stream.key, (stream.first_ms + stream.last_ms) // 2, "+", "COUNT", _READ)

    def anywhere(stream: Stream) -> bytes:
        # A random position of the large stream was not read recently, so its cold segment is decompressed first.
        at = chooser.randint(stream.first_ms, stream.last_ms - (stream.last_ms - stream.first_ms) // 50)
        return command("XRANGE", stream.key, at, "+", "COUNT", _READ)

    return [
        ("XADD", lambda stream: command("XADD", stream.key, "*", "sensor-id", 1234, "temperature", "19.8"), 500),
        ("XACK of one ID", lambda stream: command("XACK", stream.key, GROUP, stream.pending.pop()), 500),
        (
            "XREADGROUP of 100",
            lambda stream: command("XREADGROUP", "GROUP", GROUP, "d", "COUNT", _READ, "STREAMS", stream.key, ">"),
            40,
        ),
        ("XRANGE of 100 in the middle", middle, 200),
        ("XRANGE of 100 anywhere", anywhere, 200),
        ("XPENDING of 10", lambda stream: command("XPENDING", stream.key, GROUP, "-", "+", 10), 300),
        ("XPENDING of 10, one consumer", lambda stream: command("XPENDING", stream.key, GROUP, "-", "+", 10, "c"), 300),
    ]


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def settled_memory(connection: Connection, pid: int) -> int:
    """Return the resident memory of a process in bytes, once it is stable, and after a MEMORY PURGE."""
    end = time.monotonic() + _SETTLE_SECONDS
    sizes: list[int] = []
    while time.monotonic() < end:
        time.sleep(0.5)
        sizes.append(resident(pid))
        if len(sizes) > 5 and max(sizes[-5:]) - min(sizes[-5:]) < 1 << 20:
            break
    connection.reply(command("MEMORY", "PURGE"))
    return resident(pid)


def main() -> int:
    """Measure and print; the exit status is 0 if the engine is within all limits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.flat", description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=10_000_000, help="entries of the large stream")
    parser.add_argument("--pending", type=int, default=1_000_000, help="pending entries of the large stream")
    parser.add_argument("--only", default="", metavar="SERVER", help="engine or redis")
    options = parser.parse_args()
    return 0 if run(options.entries, options.pending, options.only) else 1


def run(entries: int = 10_000_000, pending: int = 1_000_000, only: str = "") -> bool:
    """Measure the servers whose name contains ``only``; return whether the engine is within all limits."""
    good = True
    for name, start in (("engine", servers.engine_command()), ("redis", servers.redis_command())):
        if start is None or only not in name:
            continue
        with ExitStack() as stack:
            server = stack.enter_context(servers.running(name, start))
            connection = stack.enter_context(Connection(server.port))
            good &= measure(name, connection, server.pid, entries, pending) or name != "engine"
    return good


def measure(name: str, connection: Connection, pid: int, entries: int, pending: int) -> bool:
    """Measure one server; return whether it is within all limits."""
    fill(connection, SMALL, SMALL_ENTRIES)
    small = deliver(connection, SMALL, SMALL_PENDING)
    empty = settled_memory(connection, pid)
    fill(connection, LARGE, entries)
    filled = settled_memory(connection, pid)
    # Decompressed entries remain in a cache of limited size: fill it before pending records are measured.
    read(connection, LARGE, pending)
    warm = settled_memory(connection, pid)
    large = deliver(connection, LARGE, pending)
    delivered = settled_memory(connection, pid)
    per_entry, per_pending = (filled - empty) / entries, (delivered - warm) / pending
    usage = _INTEGER.match(connection.reply(command("MEMORY", "USAGE", LARGE, "SAMPLES", 0)))
    reported = int(usage.group(1)) if usage else 0
    print(f"{name}: {entries:,} entries, {pending:,} pending")
    print(
        f"  memory: {per_entry:.1f} bytes an entry, {per_pending:.1f} bytes a pending record; "
        f"MEMORY USAGE says {reported / 1e6:.1f} MB, the process grew by {(delivered - empty) / 1e6:.1f} MB"
    )
    good = per_entry <= MOST_ENTRY_BYTES and per_pending <= MOST_PENDING_BYTES
    streams = [small, large]
    for stream in streams:
        look_up_ends(connection, stream)
    for label, make, runs in commands():
        of_small, of_large = times_in_turns(connection, streams, make, runs)
        ratio = of_large / of_small
        good &= ratio <= MOST_RATIO
        print(f"  {label:30} {of_small:8.0f} us {of_large:8.0f} us {ratio:6.2f}", flush=True)
    return good


if __name__ == "__main__":
    raise SystemExit(main())
