"""Run the measurements, print the tables, and save the figures with a description of the machine.

Servers that are compared take turns within every repetition, so that a slow moment of the machine does not affect only
one of them. The tables show the median, the spread (`benchmarks.report`), the ratio to the peer, and whether the ratio
reaches its target (`benchmarks.targets`).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from importlib import metadata
from typing import Any

from benchmarks import report, results, servers, targets
from benchmarks.engine import flat, latency, memory
from benchmarks.engine.cases import Case, server_cases
from benchmarks.engine.client import Connection, command
from benchmarks.engine.durable_cases import durable_cases
from benchmarks.engine.fake_cases import fake_cases
from benchmarks.engine.stream_cases import stream_cases
from benchmarks.spark import table as spark_table
from benchmarks.spark import trigger
from benchmarks.stalls import table

LATENCY = "waiting consumers"
GROWTH = "costs independent of size"
FAKE = "comparison with fakeredis"
#: Fraction of the sizes of `python -m benchmarks.stalls`, which takes twenty minutes.
STALLS_SCALE = 0.1
Runs = dict[str, list[float]]  # entries per second of each run, by server
_FAKE_SERVER = [sys.executable, "-m", "benchmarks.engine.fake_server"]


def measure(case: Case, connections: dict[str, Connection], repetitions: int) -> Runs:
    """Run a case on every server in turn; the first repetition is a warm-up and is not counted."""
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


def compare(
    commands: dict[str, list[str] | None], cases: Iterable[Case], repetitions: int, known: dict[str, Any]
) -> dict[str, Any]:
    """Measure cases on two servers, and return the figures. Print a column for each server, the ratio of both columns,
    and the machine's limit from ``known``.
    """
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:
        connections: dict[str, Connection] = {}
        for name, start in commands.items():
            if start is None:
                print(f"{name}: not measured, because it is not installed")
                continue
            server = stack.enter_context(servers.running(name, start))
            connections[name] = stack.enter_context(Connection(server.port))
        versions = {name: version(name, connection) for name, connection in connections.items()}
        print(report.head(*(f"{name} {versions[name]}" for name in connections)) + "   entries per second")
        for case in cases:
            rates = measure(case, connections, repetitions)
            result: dict[str, Any] = {"case": case.name, "entries": case.entries, "entries_per_second": rates}
            rest = []
            if len(rates) == 2:
                ours, peer = map(statistics.median, rates.values())
                least = targets.SERVER.get(case.name) if "redis" in commands else None
                rest.append(report.with_target(ours / peer, least))
                if least is not None:
                    result |= {"target": least, "reached": report.reached(ours / peer, least)}
            rest += reference(case, known)
            print(report.line(case.name, [report.rate(runs) for runs in rates.values()], rest), flush=True)
            results.append(result)
    return {"servers": versions, "results": results}


def reference(case: Case, known: dict[str, Any]) -> list[str]:
    """Return the machine's limit for the work of the case, if there is one."""
    if case.copied:
        return [f"memory copies {known['copied_bytes_per_second'] / case.copied:,.0f}"]
    if case.synced:
        return [f"fsync allows {known['fsyncs_per_second'] * case.synced:,.0f}"]
    return []


def measure_latency(seconds: float, pending: int) -> dict[str, Any]:
    """Measure the latency from XADD to waiting consumers, by server, without and with pending entries."""
    figures: dict[str, Any] = {}
    print(
        report.head("engine", "redis")
        + f"   {LATENCY}: within {latency.LIMIT_MS:g} ms, and the 99.9th percentile; {latency.RATE:,} a second"
    )
    for unacknowledged in (0, pending):
        found: dict[str, Any] = {}
        for name, start in (("engine", servers.engine_command()), ("redis", servers.redis_command())):
            if start is not None:
                with servers.running(name, start) as server:
                    measured = latency.measure(server.port, seconds, unacknowledged)
                found[name] = {"within": measured.within(latency.LIMIT_MS), "p99.9_ms": measured.percentile(99.9)}
        cells = [f"{figure['within']:.3f} % {figure['p99.9_ms']:6.2f} ms" for figure in found.values()]
        rest = []
        if len(found) == 2:
            ratio = found["engine"]["p99.9_ms"] / found["redis"]["p99.9_ms"]
            rest.append(report.with_target(ratio, most=targets.LATENCY))
            found |= {"target": targets.LATENCY, "reached": report.reached(ratio, most=targets.LATENCY)}
        figures[f"{unacknowledged} unacknowledged"] = found
        print(report.line(f"{unacknowledged:,} unacknowledged", cells, rest), flush=True)
    return figures


def version(name: str, connection: Connection) -> str:
    """Return the version from a server's INFO; for fakeredis, that of its package."""
    if name == "fakeredis":
        return metadata.version(name)
    reply = connection.reply(command("INFO", "server")).decode()
    return next((text.split(":", 1)[1] for text in reply.splitlines() if text.startswith("redis_version:")), "")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run the requested measurements; return the figures and a description of the machine."""
    full, only, repetitions = options.full, options.only, options.repetitions
    figures = results.new_figures()
    known = figures["machine"]
    print(f"Median and spread of up to {repetitions} runs, one client unless noted.")
    print(f"{known['processor']}, {known['cores']} cores, load {known['load_before']:.1f}")
    cases = [case for case in [*server_cases(), *stream_cases(), *durable_cases()] if only in case.name]
    if cases:
        commands = {"engine": servers.engine_command(), "redis": servers.redis_command()}
        figures |= compare(commands, cases, repetitions, known)
    if only in FAKE:
        commands = {"engine": servers.engine_command(), "fakeredis": _FAKE_SERVER}
        figures["fakeredis"] = compare(commands, fake_cases(), min(repetitions, 3), known)
    if only in memory.TITLE:
        figures["memory"] = memory.measure(10_000_000 if full else 1_000_000)
    if only in LATENCY:
        figures["latency"] = measure_latency(*((10.0, 1_000_000) if full else (3.0, 100_000)))
    if only in trigger.TITLE:
        figures["trigger"] = trigger.measure((10_000, 10_000_000 if full else 1_000_000), 200 if full else 100)
    if spark_table.wanted(only):
        rows, rounds = (4_000_000, 5) if full else (1_000_000, 3)
        figures["spark"] = spark_table.measure(rows, min(rounds, repetitions), only)
    if full and only in GROWTH:
        flat.run()
    if full and only in table.TITLE:
        figures[table.TITLE] = table.run(STALLS_SCALE, 1)
    return figures


def main() -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5, help="runs of each case on each server (default 5)")
    parser.add_argument("--only", default="", metavar="TEXT", help="run measurements whose name contains TEXT")
    results.add_option(parser)
    parser.add_argument("--full", action="store_true", help="use the numbers of entries and runs of published figures")
    options = parser.parse_args()
    servers.end_with_this_process()
    results.keep(run(options), options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
