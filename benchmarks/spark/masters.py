"""Scaling by masters and executors: the same streams on a Redis Cluster of one to twelve masters, with one and two
Spark cores.

Each row has three figures, each the best of `--repeats` runs: the rows per second, and the processor seconds per
million rows of Spark with its Python processes, and of the busiest master. If each master has a core of its own, the
busiest master limits the rate. On a machine with fewer cores than processes, the rate cannot grow.

The exponents of both costs against the number of masters are printed, and the costs are drawn. `benchmarks.cluster`
reads the figures.

Run with `python -m benchmarks.spark.masters`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from redis.crc import key_slot

from benchmarks import machine, picture, report, results, servers
from benchmarks.cluster import Measured, save
from benchmarks.curves.__main__ import labelled
from benchmarks.engine.client import Connection, command
from benchmarks.processor_time import since, spent
from benchmarks.spark.session import session

_SLOTS = 16_384
_STREAMS = 12
_SCHEMA = "`sensor-id` int, temperature double"
#: Timeout in seconds for the nodes of a cluster to agree.
_SECONDS = 30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--masters", type=int, nargs="+", default=[1, 2, 3, 4, 6, 12])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, default=1_200_000, help=f"rows in all {_STREAMS} streams together")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=results.RESULTS, metavar="FOLDER", help="for figures and chart")
    given = parser.parse_args()
    servers.end_with_this_process()
    given.output.mkdir(parents=True, exist_ok=True)
    runs: list[Measured] = []
    start = servers.redis_command()
    if start is None:
        raise SystemExit("redis-server is not installed")
    print(report.head("rows/s", "Spark CPU s/M rows", "master CPU s/M rows"))
    for cores in given.cores:
        session(cores)
        for masters in given.masters:
            with _cluster(start, masters) as nodes:
                url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
                for operation, work in (("write", _write), ("read", _read)):
                    run = Measured(operation, cores, masters, *_measure(work, url, nodes, given.rows, given.repeats))
                    runs.append(run)
                    name = f"{operation}, {cores} cores, {masters} masters"
                    print(report.line(name, [f"{run.rate:,.0f}", f"{run.spark:.2f}", f"{run.busiest:.2f}"]), flush=True)
        session(cores).stop()
    save(runs, given.output)
    _draw(runs, given.output / "curves-masters.svg")


def _draw(runs: Sequence[Measured], path: Path) -> None:
    """Draw the costs against the number of masters, and print their exponents."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for run in runs:
        for cost, figure in (("Spark", run.spark), ("the busiest master", run.busiest)):
            lines = curves.setdefault(f"{run.operation}, processor s of {cost} per million rows", {})
            lines.setdefault(f"{run.cores} cores", []).append((run.masters, figure))
    named = labelled(curves)
    for cost, lines in named.items():
        print(f"{cost}: exponents by {', '.join(lines)}")
    known = machine.description()
    note = f"{known['processor']}, {known['cores']} cores, load {known['load_before']:.1f}"
    path.write_text(picture.svg(named, "Cost against the number of masters", note, "masters", logarithmic=True))


def _measure(
    work: Callable[[str, int], None], url: str, nodes: list[servers.Server], rows: int, repeats: int
) -> tuple[float, float, float]:
    """Return the rows per second, and the processor seconds per million rows of Spark and of the busiest master."""
    work(url, 1000)
    rates, of_spark, of_masters = [], [], []
    for _ in range(repeats):
        if work is _write:
            for node in nodes:
                with Connection(node.port) as connection:
                    connection.lines(command("FLUSHALL"), 1)
        before, busy = spent(os.getpid()), [spent(node.pid) for node in nodes]
        began = time.perf_counter()
        work(url, rows)
        rates.append(rows / (time.perf_counter() - began))
        masters = [since(early, spent(node.pid)) for early, node in zip(busy, nodes, strict=True)]
        of_masters.append(max(masters) * 1e6 / rows)
        of_spark.append((since(before, spent(os.getpid())) - sum(masters)) * 1e6 / rows)
    return max(rates), min(of_spark), min(of_masters)


def _write(url: str, rows: int) -> None:
    """Append ``rows`` rows, exactly once."""
    names = F.array(*map(F.lit, _streams()))
    frame = (
        SparkSession.active()
        .range(rows)
        .select(
            F.element_at(names, (F.col("id") % _STREAMS + 1).cast("int")).alias("_stream"),
            (F.col("id") % 9000).cast("int").alias("sensor-id"),
            (F.col("id") % 300 / 10).alias("temperature"),
        )
    )
    frame.write.format("pystreams").options(url=url).mode("append").save()


def _read(url: str, _rows: int) -> None:
    """Read the rows that were written last."""
    reader = SparkSession.active().read.format("pystreams").schema(_SCHEMA)
    reader = reader.options(url=url, streams=",".join(_streams()), startingOffsets="earliest")
    reader.load().write.format("noop").mode("overwrite").save()


@functools.cache
def _streams() -> list[str]:
    """Return names of streams with evenly spread slots, so that 1, 2, 3, 4, 6 or 12 masters have equally many each."""
    found: dict[int, str] = {}
    for number in itertools.count():
        name = f"stream:{number}"
        found.setdefault(key_slot(name.encode()) * _STREAMS // _SLOTS, name)
        if len(found) == _STREAMS:
            return [found[part] for part in range(_STREAMS)]
    raise AssertionError


@contextmanager
def _cluster(start: list[str], masters: int) -> Iterator[list[servers.Server]]:
    """Run a Redis Cluster of this many masters, each with an equal range of the slots."""
    with ExitStack() as stack:
        nodes, buses = [], [servers.free_port() for _ in range(masters)]
        for number, bus in enumerate(buses):
            flags = ["--cluster-enabled", "yes", "--cluster-port", str(bus)]
            nodes.append(stack.enter_context(servers.running(f"master-{number}", [*start, *flags])))
        connections = [stack.enter_context(Connection(node.port)) for node in nodes]
        for number, connection in enumerate(connections):
            first, last = (_SLOTS * part // masters for part in (number, number + 1))
            connection.lines(command("CLUSTER", "ADDSLOTSRANGE", first, last - 1), 1)
            connection.lines(command("CONFIG", "SET", "cluster-announce-ip", "127.0.0.1"), 1)
        for node, bus in zip(nodes[1:], buses[1:], strict=True):
            connections[0].lines(command("CLUSTER", "MEET", "127.0.0.1", node.port, bus), 1)
        deadline = time.monotonic() + _SECONDS
        while not all(_is_whole(connection, masters) for connection in connections):
            if time.monotonic() > deadline:
                raise TimeoutError("the cluster's nodes do not agree")
            time.sleep(0.1)
        yield nodes


def _is_whole(connection: Connection, masters: int) -> bool:
    info = connection.reply(command("CLUSTER", "INFO"))
    return b"cluster_state:ok" in info and b"cluster_size:%d\r" % masters in info


if __name__ == "__main__":
    main()
