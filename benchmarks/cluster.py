"""Extrapolation to a large cluster: executors and masters as a closed queueing network, computed from measured CSVs.

    python -m benchmarks.cluster [--executors N] [--masters N] [--streams N]

Assumptions:

* An executor core works on one page of rows of one stream at a time, and then waits for the stream's master.
* A master serves one page after another.
* The processor time per row is the same at any size (exponents of `benchmarks.curves`).
* The slots of streams are random.
* Each executor core and each master has a processor core of its own, and the network is not a bottleneck.

The output starts with a check for each number of masters: the busiest master's processor time, as predicted from the
measurement with one master, and as measured.

Input: ``cluster-masters.csv`` (`benchmarks.spark.masters`) and ``cluster-driver.csv`` (`benchmarks.spark.driver`).
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import log
from pathlib import Path

MEASURED = Path(__file__).resolve().parent.parent / "docs/images"
_FIGURES = "cluster-masters.csv"
_WHO = ("Spark", "busiest master")
#: Rows of a page, which is one request, and pages of a simulation per executor core.
PAGE, PAGES = 1000, 300


@dataclass(frozen=True)
class Measured:
    """One run of `benchmarks.spark.masters`.

    `spark` and `busiest`: processor seconds per million rows of Spark, and of the busiest master.
    """

    operation: str
    cores: int
    masters: int
    #: Rows per second.
    rate: float
    spark: float
    busiest: float


def measured() -> list[Measured]:
    """Return the measured runs."""
    with (MEASURED / _FIGURES).open(newline="") as file:
        _, *rows = csv.reader(file)
    return [
        Measured(operation, int(cores), int(masters), *map(float, costs)) for operation, cores, masters, *costs in rows
    ]


def save(runs: Iterable[Measured], folder: Path) -> None:
    """Write the runs to the file that `measured` reads."""
    with (folder / _FIGURES).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "cores", "masters", "rows/s", *(f"{who}, s per million rows" for who in _WHO)])
        for run in runs:
            costs = f"{run.rate:.0f}", f"{run.spark:.2f}", f"{run.busiest:.3f}"
            writer.writerow([run.operation, run.cores, run.masters, *costs])


def planning(streams: int) -> dict[str, float]:
    """Return the driver's processor milliseconds for ``streams`` streams, by step. A power law is fitted to the
    measured numbers of streams.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    with (MEASURED / "cluster-driver.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            points.setdefault(row["step"], []).append((log(float(row["streams"])), log(float(row["processor ms"]))))
    found = {}
    for step, some in points.items():
        slope, start = statistics.linear_regression(*zip(*some, strict=True))
        found[step] = 2.718281828459045 ** (start + slope * log(streams))
    return found


def simulate(
    spark: float, master: float, executors: int, masters: int, streams: int, seed: int = 1
) -> tuple[float, float, float]:
    """Return the rows per second, the busiest master's utilisation, and the mean utilisation of the masters.

    Args:
        spark: Executor seconds per million rows.
        master: Master seconds per million rows.
        executors: Number of executor cores.
        masters: Number of masters.
        streams: Number of streams, each on a random master.
        seed: Seed of the random choices.
    """
    chooser = random.Random(seed)
    homes = [chooser.randrange(masters) for _ in range(streams)]
    busy, free = [0.0] * masters, [0.0] * masters
    # The time at which each core sends its next page, exponentially distributed around the measured mean.
    ready = [chooser.expovariate(1e6 / (spark * PAGE)) for _ in range(executors)]
    heapify(ready)
    end = 0.0
    for _ in range(PAGES * executors):
        home = homes[chooser.randrange(streams)]
        taken = master * PAGE / 1e6
        free[home] = max(free[home], ready[0]) + taken
        busy[home] += taken
        end = max(end, free[home])
        heapreplace(ready, free[home] + chooser.expovariate(1e6 / (spark * PAGE)))
    return PAGE * PAGES * executors / end, max(busy) / end, statistics.mean(busy) / end


def predicted_share(run: Measured, masters: int, streams: int = 12) -> float:
    """Return the busiest master's seconds per million rows, for streams with evenly spread slots."""
    return run.busiest * -(-streams // masters) / streams


def main() -> None:
    """Print the check, then the extrapolation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, default=100, help="executor cores")
    parser.add_argument("--masters", type=int, default=30)
    parser.add_argument("--streams", type=int, default=1000)
    given = parser.parse_args()
    runs = measured()
    print("busiest master, s per million rows          predicted  measured")
    alone = {(run.operation, run.cores): run for run in runs if run.masters == 1}
    for run in runs:
        single = alone.get((run.operation, run.cores))
        if single is not None and run is not single:
            name = f"{run.operation}, {run.cores} cores, {run.masters} masters"
            print(f"{name:44}{predicted_share(single, run.masters):9.2f} {run.busiest:9.2f}")
    print(f"\n{given.executors} executors, {given.masters} masters, {given.streams:,} streams")
    print("          rows/s  requests/s per master  busiest master  mean master")
    for operation in ("write", "read"):
        base = max((run for run in alone.values() if run.operation == operation), key=lambda run: run.cores)
        spark = max(run.spark for run in runs if (run.operation, run.cores) == (operation, base.cores))
        rate, busiest, mean = simulate(spark, base.busiest, given.executors, given.masters, given.streams)
        print(f"{operation:6}{rate:12,.0f} {rate / PAGE / given.masters:22,.0f} {busiest:15.0%} {mean:12.0%}")
    print(f"connections: {given.executors} per master, {given.executors * given.masters:,} in all")
    print("driver's processor milliseconds, 100,000 streams:")
    for step, spent in planning(100_000).items():
        print(f"  {step:36}{spent:9,.0f}")


if __name__ == "__main__":
    main()
