"""Measure Spark's Kafka source and sink and the connector's alternately: `python -m benchmarks.kafka`.

Rates are rows per second. A streaming query has two rates: the rate of its triggers except the first one, and the rate
of the whole query, including its start. Processor time is the sum of all processes of the measurement: Spark, its
Python workers, and the servers. If the jars are missing, the reason is printed, and the exit status is 0.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks import report, results, servers
from benchmarks.engine.client import Connection
from benchmarks.kafka import broker, jars, latency
from benchmarks.kafka.contenders import Kafka, Streams, Way, nothing
from benchmarks.processor_time import since, spent
from benchmarks.spark.contenders import write_to_nowhere

#: Workload of the connector -> Kafka's workload, and minimum ratio of their median rates; None if there is no target.
TARGETS = {
    "batch read, engine": ("batch read, Kafka", 6.0),
    "batch read, redis": ("batch read, Kafka", 6.0),
    "batch write, engine": ("batch write, Kafka", 4.0),
    "batch write, redis": ("batch write, Kafka", 3.0),
    "stream to stream, engine": ("stream to stream, Kafka", None),
    "stream to stream, redis": ("stream to stream, Kafka", None),
    "stream to stream, group, engine": ("stream to stream, Kafka", 2.5),
    "stream to stream, group, redis": ("stream to stream, Kafka", 1.5),
    "stream to stream, engine, with its start": ("stream to stream, Kafka, with its start", 2.5),
    "stream to stream, group, engine, with its start": ("stream to stream, Kafka, with its start", 2.3),
    "stream to stream, redis, with its start": ("stream to stream, Kafka, with its start", 1.8),
    "stream to stream, group, redis, with its start": ("stream to stream, Kafka, with its start", 1.5),
}
#: Suffix of the name under which the rate of a whole streaming query is shown.
WITH_START = ", with its start"
#: (rows per second, processor microseconds per row) of each run, by name of the workload.
Runs = dict[str, list[tuple[float, float]]]


def main() -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=200_000, help="rows of a micro-batch")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds; a warm-up round precedes them")
    parser.add_argument("--only", default="", metavar="TEXT", help="run workloads whose name contains TEXT")
    parser.add_argument("--rates", type=int, nargs="*", default=[100, 5000], help="appends per second, for latency")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of appending at each rate")
    results.add_option(parser)
    options = parser.parse_args()
    servers.end_with_this_process()
    try:
        brokers, _ = jars.broker()
        version, files = jars.connector()
        jars.tools()
    except jars.MissingJarsError as missing:
        print(f"Kafka is not measured: {missing}")
        return 0
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {os.pathsep.join(map(str, files))} pyspark-shell"
    figures = results.new_figures()
    known = figures["machine"]
    print(f"{known['processor']}, {known['cores']} cores, load {known['load_before']:.1f}")
    print(f"Broker {brokers}, Spark's connector {version}, {known['packages']['pyspark']} local[2]")
    figures["kafka"] = {"broker": brokers, "connector": version, **_measure(options)}
    results.keep(figures, options.output, "kafka-")
    return 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        sides: list[Kafka | Streams] = [Kafka(stack.enter_context(broker.running()))]
        for name, start in (("engine", servers.engine_command()), ("redis", servers.redis_command())):
            if start is None:
                print(f"{name}: not measured, because it is not installed")
                continue
            server = stack.enter_context(servers.running(name, start))
            sides.append(Streams(name, stack.enter_context(Connection(server.port))))
        by_side = [side.ways(options.rows, options.batch) for side in sides]
        alone = Way("batch write, thrown away", options.rows, lambda: write_to_nowhere(options.rows), nothing)
        chosen = [way for ways in (*by_side, [alone]) for way in ways if options.only in way.name]
        if chosen:
            for side in sides:
                side.fill(options.rows)
        runs = _rounds(chosen, options.rounds)
        ratios = _show(runs, options.rows)
        delays = {rate: latency.measure(sides, rate, options.seconds) for rate in options.rates}
    return {"rows": options.rows, "batch": options.batch, "runs": runs, "ratios": ratios, "latency_ms": delays}


def _rounds(chosen: Sequence[Way], rounds: int) -> Runs:
    runs: Runs = defaultdict(list)
    for number in range(rounds + 1):
        for way in chosen:
            before, begin = spent(os.getpid()), time.perf_counter()
            counted = way.work()
            seconds = time.perf_counter() - begin
            processor = since(before, spent(os.getpid()))
            way.check()
            measured = {way.name: (way.rows, seconds)}
            if counted is not None:
                measured = {way.name: counted, way.name + WITH_START: (way.rows, seconds)}
            for name, (rows, seconds) in measured.items():
                if number:
                    runs[name].append((rows / seconds, 1e6 * processor / way.rows))
                print(f"round {number}: {name} {rows / seconds:,.0f}", file=sys.stderr, flush=True)
    return runs


def _show(runs: Runs, rows: int) -> list[dict[str, Any]]:
    print(report.head("rows per second", "processor us/row") + f"   {rows:,} rows, ratio to Kafka")
    found: list[dict[str, Any]] = []
    for name in sorted(runs, key=lambda name: name.split(",")[0]):
        rates, processor = zip(*runs[name], strict=True)
        rest = []
        peer, least = TARGETS.get(name, (None, None))
        if peer in runs:
            ratio = statistics.median(rates) / statistics.median(rate for rate, _ in runs[peer])
            rest.append(report.with_target(ratio, least))
            found.append({"way": name, "ratio": ratio, "target": least, "reached": report.reached(ratio, least)})
        print(report.line(name, [report.rate(rates), f"{statistics.median(processor):.2f}"], rest), flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
