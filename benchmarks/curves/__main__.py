"""Measure cost against size, and draw charts.

    python -m benchmarks.curves [--short] [--most SIZE] [--only AXIS ...] [--servers NAME ...] [--output FOLDER]

Writes ``curves-AXIS.svg`` and ``curves-AXIS.csv`` for each axis (`benchmarks.curves.axes`), each curve with its
exponent: the slope of the line through its logarithms. An exponent of 0 means that the cost does not depend on the
size, 1 means that it is proportional to the size. Without ``--short`` and ``--most``, a stream gets a hundred million
entries and a group ten million pending entries on each server, which takes half an hour. Servers run without
persistence. The server ``engine, disk`` stores full segments of streams on disk.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import machine, picture, results, servers
from benchmarks.curves.axes import AXES
from benchmarks.engine.client import Connection


def commands() -> dict[str, list[str] | None]:
    """Return the command lines of the servers to measure."""
    engine = servers.engine_command()
    return {
        "engine": engine,
        "engine, disk": [*engine, "--stream-storage", "disk"],
        "redis": servers.redis_command(),
    }


def main() -> int:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__.split("\n")[0])
    parser.add_argument("--short", action="store_true", help="small sizes: a minute or two")
    parser.add_argument("--most", type=int, default=sys.maxsize, metavar="SIZE", help="leave out sizes above SIZE")
    parser.add_argument("--only", nargs="+", choices=list(AXES), default=list(AXES), help="axes to measure")
    parser.add_argument("--servers", nargs="+", choices=list(commands()), default=list(commands()))
    parser.add_argument(
        "--output", type=Path, default=results.RESULTS, metavar="FOLDER", help="for charts and CSV files"
    )
    options = parser.parse_args()
    servers.end_with_this_process()
    options.output.mkdir(parents=True, exist_ok=True)
    known = machine.description()
    note = f"{known['processor']}, {known['cores']} cores, Python {known['python']}, load {known['load_before']:.1f}"
    print(note)
    for name in options.only:
        curves = measure(name, options.servers, options.most, short=options.short)
        title, axis, *_ = AXES[name]
        (options.output / f"curves-{name}.svg").write_text(
            picture.svg(labelled(curves), title, note, axis, logarithmic=True)
        )
        keep(curves, options.output / f"curves-{name}.csv", axis)
    return 0


def measure(name: str, wanted: list[str], most: int, *, short: bool) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return the measurements along an axis: by name of the cost and of the server, its (size, cost) pairs."""
    _, axis, long_sizes, short_sizes, measurement = AXES[name]
    sizes = [size for size in (short_sizes if short else long_sizes) if size <= most]
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for server_name in wanted:
        start = commands()[server_name]
        if start is None:
            print(f"{server_name}: not measured, because it is not installed")
            continue
        with (
            tempfile.TemporaryDirectory(prefix="bench-curves-") as directory,
            servers.running("server", start, directory) as server,
            Connection(server.port, 600) as connection,
        ):
            for size, costs in measurement(server, connection, sizes):
                for cost, figure in costs.items():
                    curves.setdefault(cost, {}).setdefault(server_name, []).append((max(size, 1), figure))
                shown = ", ".join(f"{cost} {figure:,.1f}" for cost, figure in costs.items())
                print(f"{server_name}, {size:,} {axis}: {shown}", flush=True)
    return curves


def exponent(line: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line through the points' logarithms; NaN for fewer than two sizes with a cost."""
    points = [(math.log(size), math.log(figure)) for size, figure in line if figure > 0]
    if len({x for x, _ in points}) < 2:
        return math.nan
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def labelled(curves: Mapping[str, picture.Lines]) -> dict[str, picture.Lines]:
    """Return the curves with their exponents in their names."""
    return {
        cost: {f"{server}: {exponent(line):+.2f}": line for server, line in lines.items()}
        for cost, lines in curves.items()
    }


def keep(curves: Mapping[str, picture.Lines], path: Path, axis: str) -> None:
    """Write the figures next to the chart."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([axis, "server", "what", "figure", "exponent"])
        for cost, lines in curves.items():
            for server, line in lines.items():
                slope = f"{exponent(line):.2f}"
                writer.writerows([f"{size:g}", server, cost, f"{figure:.3g}", slope] for size, figure in line)


if __name__ == "__main__":
    sys.exit(main())
