"""Run the soak test, and draw its chart. The exit status is 0 if nothing grew without bound and no data was lost."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks import machine, results, servers
from benchmarks.soak import load, plot, samples
from benchmarks.soak.client import Client

#: Seconds between two samples.
_EVERY = 5.0
_FLAGS = [
    "--appendonly", "yes", "--save", "30 1000", "--auto-aof-rewrite-min-size", "16mb",
    "--latency-monitor-threshold", "100",
]  # fmt: skip


def main() -> int:
    """Run the test, draw the chart, and print what grew or was lost."""
    about = "Mixed load for a long time: memory, latency and files must not grow without bound."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=about)
    parser.add_argument("--minutes", type=float, default=20, help="duration (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the load's random choices (default 1)")
    parser.add_argument(
        "--output", type=Path, default=results.RESULTS, metavar="FOLDER", help="for soak.csv and soak.svg"
    )
    options = parser.parse_args()
    servers.end_with_this_process()
    found: list[samples.Sample] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as data:
        command = [sys.executable, "-m", "engine", *_FLAGS]
        with servers.running("soak", command, directory=data) as server:
            with _load_running(server.port, options.minutes * 60, options.seed) as worker:
                for sample in samples.watch(server.port, server.pid, options.minutes * 60, _EVERY):
                    found.append(sample)
                    print(_line(sample), flush=True)
                    if worker.exitcode:
                        break
            troubles = [f"the load ended with {worker.exitcode}"] if worker.exitcode else samples.grown(found)
            before = _contents(server.port)
        with servers.running("soak", command, directory=data) as server:
            if _contents(server.port) != before:
                troubles.append("the data changed over a restart")
    _keep(found, options.output, options.minutes)
    for trouble in troubles:
        print(trouble)
    return 1 if troubles else 0


@contextmanager
def _load_running(port: int, seconds: float, seed: int) -> Iterator[multiprocessing.process.BaseProcess]:
    """Run the load in a separate process, so that the PINGs of this process wait only for the server."""
    worker = multiprocessing.get_context("spawn").Process(target=load.run, args=(port, seconds, seed), daemon=True)
    worker.start()
    try:
        yield worker
        worker.join(60)
    finally:
        if worker.is_alive():
            worker.terminate()
            worker.join()


def _contents(port: int) -> list[object]:
    """Return the data that must survive a restart: length, ends, groups and pending entries of each stream."""
    with closing(Client(port)) as client:
        found: list[object] = []
        for stream in load.STREAMS:
            ends = [
                client.run(*words, "COUNT", 1)
                for words in (("XRANGE", stream, "-", "+"), ("XREVRANGE", stream, "+", "-"))
            ]
            groups = client.run("XINFO", "GROUPS", stream)
            found.append((client.run("XLEN", stream), ends, groups, client.run("XPENDING", stream, load.GROUPS[0])))
        return found


def _line(sample: samples.Sample) -> str:
    sizes = f"{sample.memory / 1e6:6.1f} MB  log {sample.log / 1e6:5.1f} MB  {sample.descriptors:3d} open"
    ping = f"PING p50 {sample.ping_p50:.2f}, p99 {sample.ping_p99:.1f}, max {sample.ping_max:.0f} ms"
    return f"{sample.seconds:6.0f} s  {sizes}  {sample.commands:9,d} commands, {ping}"


def _keep(found: list[samples.Sample], folder: Path, minutes: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    title = f"A soak of {minutes:g} minutes: {found[-1].commands:,} commands, commit {machine.commit()}"
    (folder / "soak.csv").write_text(samples.csv(found))
    (folder / "soak.svg").write_text(plot.svg(found, title))
    print(f"{folder / 'soak.csv'}, {folder / 'soak.svg'}")


if __name__ == "__main__":
    sys.exit(main())
