"""Comparison of the write modes without Spark: from rows in Arrow batches to committed entries.

The modes write the same rows alternately, like one task and the driver of a write; except for `append`, the write has a
`writeId`. `staged by the driver` is `staged` for a user without permission to move entries on the server. The columns
are the rows per second of task and commit together, the ratio to the mode `append`, the connector's processor
nanoseconds per row, and the longest PING of another client.

Run with `python -m benchmarks.spark.write_modes`.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
import uuid
from typing import Any

import pyarrow as pa

from benchmarks import report, servers
from benchmarks.engine.client import Connection, command
from spark_streams.config.write import WriteOptions
from spark_streams.write.encoding import WriteSchema
from spark_streams.write.sink import plan
from streamclient.config.address import Address

MODES = ("append", "exactlyOnce", "staged", "staged by the driver")
_BATCH = 10_000


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--servers", nargs="+", default=["engine", "redis"], choices=["engine", "redis"])
    given = parser.parse_args()
    table = _rows(given.rows)
    for name in given.servers:
        start = servers.engine_command() if name == "engine" else servers.redis_command()
        if start is None:
            continue
        with servers.running(name, start) as server, Connection(server.port) as connection:
            connection.reply(command("ACL", "SETUSER", "driver", "on", "nopass", "~*", "+@all", "-command", "-eval"))
            found: dict[str, list[tuple[float, float, float]]] = {mode: [] for mode in MODES}
            for _ in range(given.repetitions):
                for mode in MODES:
                    found[mode].append(_measure(server.port, mode, table))
                    connection.reply(command("FLUSHALL"))
            _show(name, given.rows, found)


def _rows(count: int) -> Any:
    numbers = range(count)
    return pa.RecordBatch.from_pydict(
        {
            "flight": pa.array(numbers, pa.int64()),
            "carrier": pa.array([("UA", "AA", "B6", "DL")[n % 4] for n in numbers]),
            "origin": pa.array([("EWR", "JFK")[n % 2] for n in numbers]),
            "dest": pa.array([f"D{n % 97}" for n in numbers]),
            "delay": pa.array([float(n % 500) for n in numbers]),
        }
    )


def _measure(port: int, mode: str, table: Any) -> tuple[float, float, float]:
    """Return seconds, processor seconds, and the longest PING in milliseconds."""
    user = "driver:x@" if mode == "staged by the driver" else ""
    settings: dict[str, Any] = {"stream": "s", "mode": mode.split(maxsplit=1)[0]}
    if mode != "append":
        settings["write_id"] = uuid.uuid4().hex
    schema = WriteSchema(tuple(table.schema.names), False, False, False)
    sink = plan(Address(f"redis://{user}127.0.0.1:{port}"), WriteOptions(**settings), schema, False, False)
    with _Pings(port) as pings:
        begin, spent = time.perf_counter(), time.process_time()
        message = sink.write(iter([table.slice(at, _BATCH) for at in range(0, table.num_rows, _BATCH)]))
        sink.finish([message])
        return time.perf_counter() - begin, time.process_time() - spent, pings.longest * 1000


class _Pings(threading.Thread):
    """Another client, which sends a PING two milliseconds after each reply."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._connection = Connection(port)
        self._ended = threading.Event()
        self.longest = 0.0

    def __enter__(self) -> _Pings:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
        self._connection.__exit__(None, None, None)

    def run(self) -> None:
        while not self._ended.wait(0.002):
            begin = time.perf_counter()
            self._connection.reply(command("PING"))
            self.longest = max(self.longest, time.perf_counter() - begin)


def _show(name: str, rows: int, found: dict[str, list[tuple[float, float, float]]]) -> None:
    print(report.head("rows/s", "of append", "ns of CPU per row", "longest PING, ms") + f"   {name}, {rows:,} rows")
    base = statistics.median(seconds for seconds, _, _ in found["append"])
    for mode, runs in found.items():
        seconds, spent, ping = (statistics.median(column) for column in zip(*runs, strict=True))
        cells = f"{rows / seconds:,.0f}", f"{base / seconds:.2f}", f"{spent / rows * 1e9:.0f}", f"{ping:.1f}"
        print(report.line(mode, cells))


if __name__ == "__main__":
    main()
