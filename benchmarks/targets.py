"""Targets on two cores: ratios between medians of the same run, and maximum durations.

The printed table and the file of figures show for each measurement with a target whether the target is reached.
"""

from __future__ import annotations

#: Minimum ratio of entries per second, engine to redis-server.
SERVER = {
    "XADD, 4 clients": 0.6,
    "XADD, pipeline of 16": 0.6,
    "XADD, pipeline of 100": 0.8,
    "XADD, pipeline of 1000": 1.5,
    "XADD 5 fields, 1000": 0.8,
    "XADD 1 KiB, 1000": 0.8,
    "XADD 10 streams, 1000": 0.8,
    "XRANGE COUNT 100": 0.8,
    "XRANGE COUNT 10000": 4.0,
    "XRANGE 10000, cold": 1.5,
    "XREAD COUNT 1000": 1.2,
    "XREADGROUP COUNT 1000": 1.2,
    "XREADGROUP 1000 + XACK": 1.2,
    "XREADGROUP 10, 10 clients": 0.6,
    "XTRIM by 1000": 0.5,
    "XDEL of random IDs": 0.5,
    "XCLAIM of 1000": 0.5,
    "XAUTOCLAIM of 1000": 0.5,
}

#: Maximum ratio, engine to redis-server, of resident bytes per entry and of the 99.9th percentile of latency.
MEMORY = 0.45
LATENCY = 1.5

#: Maximum milliseconds that a client may wait for its PING during another client's command.
STALL_MS = 10.0

#: Minimum ratio of rows per second between two Spark workloads; None if the ratio is shown without a target.
SPARK: tuple[tuple[str, str, float | None], ...] = (
    ("Spark read, engine", "Spark ceiling", 0.4),
    ("Spark read, engine", "Spark read, naive, redis", 8.0),
    ("Spark read, redis", "Spark read, naive, redis", 4.0),
    ("Spark write, engine", "Spark write, redis-py, redis", 6.0),
    ("Spark write, redis", "Spark write, redis-py, redis", 4.0),
    ("Spark write, engine", "Spark write, ceiling", None),
    ("Spark AvailableNow, engine", "Spark read, engine", 0.7),
    ("Spark AvailableNow, engine", "Spark AvailableNow, ceiling", None),
    ("Spark stream to stream, exactlyOnce", "Spark stream to stream, append", 0.8),
)

#: Maximum duration of the connector's share of a trigger in milliseconds, and maximum growth from a small stream to a
#: large one.
TRIGGER_MS = 10.0
TRIGGER_GROWTH = 1.5
