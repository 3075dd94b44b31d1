"""Cases to measure: each prepares a server, does its work once, and names the number of entries that the work moves.

The caller times a case's `work`, but not `prepare` and `check`. Entries have two fields, like a sensor's reading:
`sensor-id 1234 temperature 19.8`, with varying values.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.engine.client import Connection, command

KEY = "bench"
READ_ENTRIES = 200_000
FRAME_ID = re.compile(rb"\*2\r\n\$\d+\r\n(\d+-\d+)\r\n")


@dataclass(frozen=True)
class Case:
    """One measurement; `entries` is the number of entries that one run of `work` moves."""

    name: str
    entries: int
    prepare: Callable[[Connection], None]
    work: Callable[[Connection], None]
    check: Callable[[Connection], None]
    repetitions: int | None = None  # maximum number of repetitions; None if the command line alone decides
    copied: int = 0  # bytes of a reply per entry, if the speed of copying memory is shown for comparison
    synced: int = 0  # entries per fsync, if the speed of the disk is shown for comparison


def xadd(pipeline: int, entries: int) -> Case:
    """Return the case of XADD with generated IDs, `pipeline` commands per write. Each write waits for the replies to
    the previous write.
    """
    chooser = random.Random(1)
    commands = [
        command("XADD", KEY, "*", "sensor-id", sensor, "temperature", f"{chooser.uniform(10, 30):.1f}")
        for sensor in chooser.choices(range(1000, 9999), k=entries)
    ]
    requests = [b"".join(commands[start : start + pipeline]) for start in range(0, entries, pipeline)]

    def work(connection: Connection) -> None:
        for request in requests:
            connection.lines(request, 2 * pipeline)

    return Case(f"XADD, pipeline of {pipeline}", entries, flush, work, expect_length(entries))


def xrange(page: int, entries: int) -> Case:
    """Return the case of XRANGE over a whole stream, in pages. The first IDs of the pages are read beforehand."""
    requests: list[bytes] = []

    def prepare(connection: Connection) -> None:
        fill(connection)
        requests.clear()
        start = b"-"
        for _ in range(entries // page):
            request = command("XRANGE", KEY, start, "+", "COUNT", page)
            ids = FRAME_ID.findall(connection.reply(request))
            if len(ids) != page:
                raise RuntimeError(f"XRANGE COUNT {page} gave {len(ids)} entries")
            requests.append(request)
            start = b"(" + ids[-1]

    def work(connection: Connection) -> None:
        for request in requests:
            connection.whole(request)

    return Case(f"XRANGE COUNT {page}", entries, prepare, work, nothing, copied=frame_bytes("1795163372693-10"))


def xreadgroup(page: int, entries: int) -> Case:
    """Return the case of XREADGROUP of new entries, which become pending."""
    request = command("XREADGROUP", "GROUP", "g", "c", "COUNT", page, "STREAMS", KEY, ">")

    def prepare(connection: Connection) -> None:
        fill(connection)
        connection.reply(command("XGROUP", "DESTROY", KEY, "g"))
        connection.reply(command("XGROUP", "CREATE", KEY, "g", 0))

    def work(connection: Connection) -> None:
        for _ in range(entries // page):
            connection.whole(request)

    def check(connection: Connection) -> None:
        pending = connection.reply(command("XPENDING", KEY, "g"))
        if not pending.startswith(b"*4\r\n:%d\r\n" % entries):
            raise RuntimeError(f"{entries} entries should be pending, XPENDING says {pending[:80]!r}")

    return Case(f"XREADGROUP COUNT {page}", entries, prepare, work, check, copied=frame_bytes("1795163372693-10"))


def add_entries(connection: Connection, entries: int, key: str = KEY) -> None:
    """Add two-field entries with varying values that repeat after 100,000 entries.

    `entries` is rounded down to thousands.
    """
    chooser = random.Random(1)
    commands = [
        command("XADD", key, "*", "sensor-id", sensor, "temperature", f"{chooser.uniform(10, 30):.1f}")
        for sensor in chooser.choices(range(1000, 9999), k=min(entries, 100_000))
    ]
    requests = [b"".join(commands[at : at + 1000]) for at in range(0, len(commands), 1000)]
    for number in range(entries // 1000):
        connection.lines(requests[number % len(requests)], 2000)


def frame_bytes(entry_id: str) -> int:
    """Return the number of bytes of a two-field entry in a reply."""
    fields = command("sensor-id", 1234, "temperature", "19.8")
    return len(b"*2\r\n$%d\r\n%b\r\n" % (len(entry_id), entry_id.encode()) + fields)


def flush(connection: Connection) -> None:
    """Empty the server."""
    connection.reply(command("FLUSHALL"))


def fill(connection: Connection) -> None:
    """Make sure that the stream to read has READ_ENTRIES entries."""
    if connection.reply(command("XLEN", KEY)) == b":%d\r\n" % READ_ENTRIES:
        return
    flush(connection)
    add_entries(connection, READ_ENTRIES)


def expect_length(entries: int) -> Callable[[Connection], None]:
    """Return a check that every XADD has added its entry."""

    def check(connection: Connection) -> None:
        length = connection.reply(command("XLEN", KEY))
        if length != b":%d\r\n" % entries:
            raise RuntimeError(f"the stream should have {entries} entries, XLEN says {length!r}")

    return check


def nothing(_connection: Connection) -> None:
    """Check nothing, because the work changes nothing."""


def server_cases() -> list[Case]:
    """Return the cases without Spark, in the order in which they run."""
    return [
        xadd(1, 4_000),
        xadd(16, 48_000),
        xadd(100, 120_000),
        xadd(1000, 200_000),
        xrange(100, READ_ENTRIES),
        xrange(10_000, READ_ENTRIES),
        xreadgroup(1000, READ_ENTRIES),
    ]
