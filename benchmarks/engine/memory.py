"""Memory per entry: resident bytes of servers filled with entries, once they are stable."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from benchmarks import report, servers, targets
from benchmarks.engine.cases import KEY, flush
from benchmarks.engine.client import Connection, command

TITLE = "resident bytes per entry"
#: Minimum number of entries for a comparison with the target. With fewer entries, the process's fixed growth of some
#: megabytes would distort the bytes per entry.
JUDGED_FROM = 10_000_000


def measure(entries: int) -> dict[str, dict[str, Any]]:
    """Fill the servers with two-field entries, constant and random; print and return the bytes per entry."""
    print(report.head("engine", "redis") + f"   {TITLE}, {entries:,} entries")
    figures: dict[str, dict[str, Any]] = {}
    for values in ("constant", "random"):
        found: dict[str, Any] = {}
        for name, start in (("engine", servers.engine_command()), ("redis", servers.redis_command())):
            if start is not None:
                with servers.running(name, start) as server, Connection(server.port) as connection:
                    found[name] = bytes_per_entry(connection, server.pid, entries, values == "constant")
        ratio = found["engine"] / found["redis"] if len(found) == 2 else None
        most = targets.MEMORY if entries >= JUDGED_FROM else None
        rest = [] if ratio is None else [report.with_target(ratio, most=most)]
        print(report.line(f"{values} values", [f"{size:.1f}" for size in found.values()], rest), flush=True)
        if ratio is not None and most is not None:
            found |= {"target": most, "reached": report.reached(ratio, most=most)}
        figures[values] = found
    return figures


def bytes_per_entry(connection: Connection, pid: int, entries: int, constant: bool) -> float:
    """Return the resident bytes per entry of a stream of two-field entries, once the server is stable."""
    chooser = random.Random(4)
    flush(connection)
    before = resident_bytes(pid)
    rows = [
        ("1234", "19.8") if constant else (str(chooser.randrange(100_000)), f"{chooser.uniform(0, 50):.1f}")
        for _ in range(100_000)
    ]
    commands = [
        command("XADD", KEY, "*", "sensor-id", sensor, "temperature", temperature) for sensor, temperature in rows
    ]
    requests = [b"".join(commands[at : at + 1000]) for at in range(0, len(commands), 1000)]
    for number in range(entries // 1000):
        connection.lines(requests[number % len(requests)], 2000)
    rests = [resident_bytes(pid)]
    while len(rests) < 4 or max(rests[-3:]) - min(rests[-3:]) > 1 << 20:
        time.sleep(1)
        rests.append(resident_bytes(pid))
    return (rests[-1] - before) / entries


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
