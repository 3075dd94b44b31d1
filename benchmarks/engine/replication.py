"""Replication: time until a replica has all data of a master, and the master's cost per XADD with one replica.

Every repetition measures a synchronisation for each kind of master and replica: engine or redis-server. It lasts from
REPLICAOF until the replica reports its link as up. The processor time of both servers is shown too. The cost of an XADD
is the master's processor time, without and with a replica. Throughput is not measured, because on two cores it would
depend on the work of the replica. The replica is a redis-server, or an engine if redis-server is not installed.

Run with `python -m benchmarks.engine.replication`; `--large` uses ten million entries.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks import report, results, servers
from benchmarks.engine.cases import KEY
from benchmarks.engine.client import Connection, command

PAIRS = (("engine", "engine"), ("engine", "redis"), ("redis", "engine"), ("redis", "redis"))
#: XADDs per request.
PIPELINES = (1, 100)
#: Flags of redis-server, which would wait for more replicas.
_FLAGS = ("--repl-diskless-sync-delay", "0")
_REQUEST = 1000
_LARGE = 10_000_000
#: Timeout of a synchronisation in seconds.
_PATIENCE = 600
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Synchronised:
    """One full synchronisation: its duration, and the processor time of master and replica, in seconds."""

    seconds: float
    master: float
    replica: float


def main() -> None:
    """Measure, print the tables and save the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000, help="entries of the stream that is synchronised")
    parser.add_argument("--large", action="store_true", help=f"{_LARGE:,} entries")
    parser.add_argument(
        "--adds", type=int, default=100_000, help="XADDs without a pipeline; with one, ten times as many"
    )
    parser.add_argument("--repeats", type=int, default=3)
    results.add_option(parser)
    given = parser.parse_args()
    servers.end_with_this_process()
    figures = results.new_figures()
    entries = _LARGE if given.large else given.entries
    figures["synchronisations"] = synchronisations(entries, given.repeats)
    figures["adds"] = adds(given.adds, given.repeats)
    results.keep(figures, given.output, "replication-")


def _command(name: str) -> list[str] | None:
    start = servers.redis_command()
    if name == "engine":
        return servers.engine_command()
    return None if start is None else [*start, *_FLAGS]


def _measured() -> dict[str, list[str]]:
    """Return the command lines of the installed servers."""
    found = {name: _command(name) for name in ("engine", "redis")}
    for name, start in found.items():
        if start is None:
            print(f"{name}: not measured, because it is not installed")
    return {name: start for name, start in found.items() if start is not None}


# -- full synchronisations --------------------------------------------------------------------------------------------


def synchronisations(entries: int, repeats: int) -> dict[str, Any]:
    """Measure every pair's synchronisation of a stream of ``entries`` entries."""
    starts = _measured()
    found: dict[str, list[Synchronised]] = {}
    for _ in range(repeats):
        for master, replica in PAIRS:
            if master in starts and replica in starts:
                name = f"{master} -> {replica}"
                found.setdefault(name, []).append(synchronised(starts[master], starts[replica], entries))
    columns = ("seconds", "entries per second", "master's CPU s", "replica's CPU s")
    print(report.head(*columns) + f"   full synchronisation of {entries:,} entries")
    for name, runs in found.items():
        seconds, master, replica = (
            statistics.median(getattr(run, field) for run in runs) for field in ("seconds", "master", "replica")
        )
        cells = [f"{seconds:.2f}", f"{entries / seconds:,.0f}", f"{master:.2f}", f"{replica:.2f}"]
        print(report.line(name, cells), flush=True)
    return {"entries": entries, "runs": {name: [asdict(run) for run in runs] for name, runs in found.items()}}


def synchronised(master_start: list[str], replica_start: list[str], entries: int) -> Synchronised:
    """Measure one synchronisation with new servers."""
    with (
        _connect("master", master_start) as (master, at_master),
        _connect("replica", replica_start) as (replica, at_replica),
    ):
        fill(at_master, entries)
        before = processor_seconds(master.pid), processor_seconds(replica.pid)
        seconds = follow(replica, master.port)
        after = processor_seconds(master.pid), processor_seconds(replica.pid)
        there = int(at_replica.reply(command("XLEN", KEY))[1:])
        if there != entries:
            raise RuntimeError(f"the replica has {there:,} entries, its master {entries:,}")
    return Synchronised(seconds, after[0] - before[0], after[1] - before[1])


@contextmanager
def _connect(name: str, start: list[str]) -> Iterator[tuple[servers.Server, Connection]]:
    with servers.running(name, start) as server, Connection(server.port) as connection:
        yield server, connection


def fill(connection: Connection, entries: int) -> None:
    """Add a stream of ``entries`` two-field entries."""
    commands = [
        command("XADD", KEY, "*", "sensor-id", str(7919 * number % 100_000), "temperature", f"{number % 500 / 10:.1f}")
        for number in range(10 * _REQUEST)
    ]
    requests = [b"".join(commands[at : at + _REQUEST]) for at in range(0, len(commands), _REQUEST)]
    for number in range(entries // _REQUEST):
        connection.lines(requests[number % len(requests)], 2 * _REQUEST)
    rest = commands[: entries % _REQUEST]
    if rest:
        connection.lines(b"".join(rest), 2 * len(rest))


def follow(replica: servers.Server, port: int) -> float:
    """Make a server a replica; return the seconds until it has all data."""
    began = time.perf_counter()
    with redis.Redis(port=replica.port, socket_timeout=_PATIENCE) as client:
        client.replicaof("127.0.0.1", port)
        while client.info("replication")["master_link_status"] != "up":
            if time.perf_counter() - began > _PATIENCE:
                raise RuntimeError(f"no synchronisation within {_PATIENCE} seconds")
            time.sleep(0.002)
    return time.perf_counter() - began


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process, including its ended children (BGSAVE)."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(words[at]) for at in (11, 12, 13, 14)) / _TICKS


# -- cost of a replica ------------------------------------------------------------------------------------------------


def adds(count: int, repeats: int) -> dict[str, Any]:
    """Measure the microseconds of the master's processor time per XADD, alone and with a replica."""
    starts = _measured()
    found: dict[str, dict[str, list[float]]] = {}
    print(report.head("alone", "with a replica", "ratio") + "   microseconds of the master's processor per XADD")
    peer = starts.get("redis") or starts["engine"]
    for _ in range(repeats):
        for name, start in starts.items():
            for way in ("alone", "with a replica"):
                # A new master each time, because one that had a replica keeps a backlog.
                with ExitStack() as stack:
                    master, connection = stack.enter_context(_connect(name, start))
                    if way != "alone":
                        replica = stack.enter_context(servers.running("replica", peer))
                        follow(replica, master.port)
                    for pipeline in PIPELINES:
                        number = count if pipeline == 1 else 10 * count
                        ways = found.setdefault(f"{name}, pipeline of {pipeline}", {})
                        ways.setdefault(way, []).append(add_cost(master.pid, connection, number, pipeline))
    for row, ways in found.items():
        alone, fed = (statistics.median(runs) for runs in ways.values())
        print(report.line(row, [f"{alone:.2f}", f"{fed:.2f}", f"{fed / alone:.2f}"]), flush=True)
    return found


def add_cost(pid: int, connection: Connection, count: int, pipeline: int) -> float:
    """Return the server's processor time per XADD in microseconds, over ``count`` XADDs."""
    request = b"".join(
        command("XADD", KEY, "*", "sensor-id", str(number), "temperature", "19.8") for number in range(pipeline)
    )
    before = processor_seconds(pid)
    for _ in range(count // pipeline):
        connection.lines(request, 2 * pipeline)
    return 1e6 * (processor_seconds(pid) - before) / count


if __name__ == "__main__":
    main()
