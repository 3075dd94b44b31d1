"""Latency from a row's append at the source to its append by the sink, at a fixed rate of appends.

Each trigger starts when the previous trigger ends. Both times come from the servers: a message's timestamp or an
entry's ID, at the source and at the sink. The rows of the first six seconds do not count, because the query warms up.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.kafka import broker, jars
from benchmarks.kafka.contenders import Kafka, Streams, make_rows

_WARM_UP_SECONDS = 6
_numbers = itertools.count(1)
_ROW = '{"sensor-id":1234,"temperature":19.8}\n'


def measure(sides: Sequence[Kafka | Streams], rate: int, seconds: float) -> dict[str, dict[str, float]]:
    """Return the median and the 99th percentile in milliseconds, by name of the server and whether a group reads."""
    found: dict[str, dict[str, float]] = {}
    print(report.head("median", "99th percentile") + f"   milliseconds from append to sink, {rate:,} rows a second")
    for side in sides:
        for group in side.groups:
            name = f"group, {side.name}" if group else side.name
            percentiles = statistics.quantiles(_delays(side, group, rate, seconds), n=100)
            found[name] = {"median": percentiles[49], "p99": percentiles[98]}
            print(report.line(name, [f"{percentiles[49]:,.0f}", f"{percentiles[98]:,.0f}"]), flush=True)
    return found


def _delays(side: Kafka | Streams, group: str, rate: int, seconds: float) -> list[int]:
    begin, end = (f"pace-{where}-{next(_numbers)}" for where in ("in", "out"))
    side.write(make_rows(1), begin)  # create the topic or stream
    with tempfile.TemporaryDirectory(prefix="bench-pace-") as directory:
        writer = side.follow(begin, end, group).option("checkpointLocation", f"{directory}/checkpoint")
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            query.processAllAvailable()
            count = int(rate * (_WARM_UP_SECONDS + seconds))
            subprocess.run(_producer(side, begin, rate, count, Path(directory)), check=True, stdout=subprocess.DEVNULL)
            query.processAllAvailable()
        finally:
            query.stop()
    rows = sorted((row.sent, row.took) for row in side.delays(end))[1:]
    if len(rows) != count:
        raise RuntimeError(f"{side.name}: {len(rows)} of {count} rows arrived at {end}")
    return [took for _, took in rows[rate * _WARM_UP_SECONDS :]]


def _producer(side: Kafka | Streams, name: str, rate: int, count: int, directory: Path) -> list[str]:
    """Return the command line of a process that appends ``count`` rows at this rate."""
    if isinstance(side, Streams):
        port = side.connection.url.rpartition(":")[2]
        return [sys.executable, "-m", "benchmarks.kafka.producer", port, name, str(rate), str(count)]
    payload = directory / "payload.txt"
    payload.write_text(_ROW)
    words = ["--topic", name, "--num-records", str(count), "--throughput", str(rate), "--payload-file", str(payload)]
    words += ["--producer-props", f"bootstrap.servers={side.address}"]
    return broker.java(jars.tools(), "org.apache.kafka.tools.ProducerPerformance", *words)
