"""Run the measurements, print the table, keep the figures with a description of the machine.

Servers take turns within every repetition, so that a slow moment of the machine does not fall on one of them alone.
Shown are the median, and the spread as the distance of the slowest from the fastest run in per cent of the median.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import flat, latency, servers
from benchmarks.cases import Case, server_cases
from benchmarks.client import Connection, command
from benchmarks.durable_cases import durable_cases
from benchmarks.spark_cases import spark_cases
from benchmarks.stream_cases import bytes_per_entry, stream_cases

MEMORY = "resident bytes per entry"
LATENCY = "consumers that wait, within"
GROWTH = "costs that do not grow"
RESULTS = Path(__file__).parent / "results"
Runs = dict[str, list[float]]  # entries per second of each run, by server


def measure(case: Case, connections: dict[str, Connection], repetitions: int) -> Runs:
    """Run a case on every server in turn; the first repetition warms up and is not counted."""
    rates: Runs = {name: [] for name in connections}
    for repetition in range(min(repetitions, case.repetitions or repetitions) + 1):
        for name, connection in connections.items():
            case.prepare(connection)
            start = time.perf_counter()
            case.work(connection)
            seconds = time.perf_counter() - start
            case.check(connection)
            if repetition:
                rates[name].append(case.entries / seconds)
    return rates


def line(case: Case, rates: Runs) -> str:
    """Lay out one case: a column for each server, and how the first compares with the second."""
    cells = [f"{case.name:24}"]
    medians = []
    for runs in rates.values():
        median = statistics.median(runs)
        medians.append(median)
        cells.append(f"{median:12,.0f} {100 * (max(runs) - min(runs)) / median:5.0f} %")
    if len(medians) == 2:
        cells.append(f"{medians[0] / medians[1]:8.2f}")
    return "  ".join(cells)


def machine() -> dict[str, Any]:
    """Describe what the figures were taken on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "load_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in ("numpy", "hiredis", "uvloop", "pyarrow")},
        "commit": commit.stdout.strip() or None,
    }


def processor() -> str:
    """Return the processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")), platform.machine())


def measure_memory(entries: int) -> dict[str, dict[str, float]]:
    """Fill fresh servers with two-field entries, constant and random; print and return what each entry takes."""
    print(f"{MEMORY}, {entries:,} entries")
    figures: dict[str, dict[str, float]] = {}
    for values in ("constant", "random"):
        found = figures[values] = {}
        for name, start in (("engine", servers.engine_command()), ("redis", servers.redis_command())):
            if start is not None:
                with servers.running(name, start) as server, Connection(server.port) as connection:
                    found[name] = bytes_per_entry(connection, server.pid, entries, values == "constant")
        cells = [f"{values + ' values':24}", *(f"{size:18.1f}" for size in found.values())]
        if len(found) == 2:
            cells.append(f"{found['engine'] / found['redis']:8.2f}")
        print("  ".join(cells), flush=True)
    return figures


def measure_latency(seconds: float, pending: int) -> dict[str, dict[str, float]]:
    """Per cent of the messages that a waiting consumer has within the limit, by server, without and with a backlog."""
    figures: dict[str, dict[str, float]] = {}
    print(f"{f'{LATENCY} {latency.LIMIT_MS:g} ms':24}  per cent; 10 consumers, {latency.RATE:,} messages a second")
    for unacknowledged in (0, pending):
        found = figures[f"{unacknowledged} unacknowledged"] = {}
        for name, start in (("engine", servers.engine_command()), ("redis", servers.redis_command())):
            if start is not None:
                with servers.running(name, start) as server:
                    measured = latency.measure(server.port, seconds, unacknowledged)
                found[name] = measured.within(latency.LIMIT_MS)
        cells = [f"{f'  {unacknowledged:,} unacknowledged':24}", *(f"{share:18.3f}" for share in found.values())]
        print("  ".join(cells), flush=True)
    return figures


def version(connection: Connection) -> str:
    """Return the version that a server gives in INFO."""
    reply = connection.reply(command("INFO", "server")).decode()
    return next((text.split(":", 1)[1] for text in reply.splitlines() if text.startswith("redis_version:")), "unknown")


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5, help="runs of each case on each server (default 5)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains TEXT")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: a new file in benchmarks/results")
    parser.add_argument("--full", action="store_true", help="as many entries and runs as the published figures have")
    options = parser.parse_args()

    taken = datetime.now(UTC)
    description = machine()
    with ExitStack() as stack:
        connections: dict[str, Connection] = {}
        for name, start in (("engine", servers.engine_command()), ("redis", servers.redis_command())):
            if start is None:
                print(f"{name}: not measured, redis-server is not installed")
                continue
            server = stack.enter_context(servers.running(name, start))
            connections[name] = stack.enter_context(Connection(server.port))
        versions = {name: version(connection) for name, connection in connections.items()}

        print(f"Entries per second: median and spread of at most {options.repetitions} runs, one client.")
        print(f"{description['processor']}, {description['cores']} cores, load {description['load_before']:.1f}")
        header = [f"{'':24}", *(f"{f'{name} {versions[name]}':>20}" for name in connections)]
        print("  ".join([*header, f"{'ratio':>8}"] if len(connections) == 2 else header))
        results = []
        cases = [*server_cases(), *stream_cases(), *durable_cases(), *spark_cases()]
        for case in (case for case in cases if options.only in case.name):
            rates = measure(case, connections, options.repetitions)
            print(line(case, rates), flush=True)
            results.append({"case": case.name, "entries": case.entries, "entries_per_second": rates})

    memory = measure_memory(10_000_000 if options.full else 1_000_000) if options.only in MEMORY else {}
    seconds, pending = (10.0, 1_000_000) if options.full else (3.0, 100_000)
    waits = measure_latency(seconds, pending) if options.only in LATENCY else {}
    if options.full and options.only in GROWTH:
        flat.run()
    target = options.output or RESULTS / f"{taken:%Y%m%dT%H%M%SZ}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "taken": taken.isoformat(), "machine": description, "servers": versions, "results": results, "memory": memory,
        "latency": waits,
    }  # fmt: skip
    target.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"Figures: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
