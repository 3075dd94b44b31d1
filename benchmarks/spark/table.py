"""Runs the Spark workloads alternately, and prints a table of their rates and of the ratios with targets."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from benchmarks import report, servers, targets
from benchmarks.engine.cases import add_entries
from benchmarks.engine.client import Connection
from benchmarks.spark.contenders import Way, clear, ways

_SLOW_ROUNDS = 2


def measure(rows: int, rounds: int, only: str) -> dict[str, Any]:
    """Run each workload whose name contains `only` in each round; the first round is a warm-up and is not counted."""
    with ExitStack() as stack:
        connections: dict[str, Connection] = {}
        starts = {"engine": servers.engine_command(), "redis": servers.redis_command()}
        for name, start in starts.items():
            if start is not None:
                server = stack.enter_context(servers.running(name, start))
                connections[name] = stack.enter_context(Connection(server.port))
                add_entries(connections[name], rows)
        chosen = [way for way in ways(connections, rows) if only in way.name]
        rates = _rounds(chosen, rounds, connections)
    print(report.head("rows per second") + f"   {rows:,} rows, local[2]")
    for name, runs in rates.items():
        print(report.line(name, [report.rate(runs)]))
    return {"rows": rows, "rows_per_second": rates, "ratios": _ratios(rates)}


def _rounds(chosen: Iterable[Way], rounds: int, connections: Mapping[str, Connection]) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {way.name: [] for way in chosen}
    for number in range(rounds + 1):
        for way in chosen:
            if way.slow and number > _SLOW_ROUNDS:
                continue
            clear(connections)
            begin = time.perf_counter()
            counted = way.work()
            seconds = time.perf_counter() - begin
            way.check()
            if number:
                rates[way.name].append(way.rows / (counted or seconds))
                if counted:
                    rates.setdefault(f"{way.name}, with its start", []).append(way.rows / seconds)
    return rates


def _ratios(rates: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    found = []
    for ours, peer, least in targets.SPARK:
        if ours in rates and peer in rates:
            ratio = statistics.median(rates[ours]) / statistics.median(rates[peer])
            print(
                report.line(f"{ours} : {peer.removeprefix('Spark ')}", [], [report.with_target(ratio, least)]),
                flush=True,
            )
            found.append(
                {"way": ours, "to": peer, "ratio": ratio, "target": least, "reached": report.reached(ratio, least)}
            )
    return found


def wanted(only: str) -> bool:
    """Return whether the name of any workload with a target contains `only`."""
    return any(only in name for ours, peer, _ in targets.SPARK for name in (ours, peer))
