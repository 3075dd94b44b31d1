"""Fill an empty server with the problems of docs/operations/ten-tasks.md: `python -m scripts.tasks_server`.

PYSTREAMS_URL names the server. The checkpoint of a Spark query is written to ./checkpoint, and its report to the
server.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import redis

from spark_streams.read.query.offsets import Offsets, Source
from spark_streams.reports import STREAM, StreamReport, summary, to_fields
from streamwire.stream_id import StreamId

_MINUTE = 60_000
_RIGHTS = ("+@connection", "+info", "+scan", "+time", "+xinfo", "+xrange", "+xrevrange", "+xread", "+xlen", "+xpending")
_DAY = 1_732_233_600_000  # 2024-11-22T00:00Z


def _orders(server: redis.Redis, now: int) -> None:
    """Add three hours of orders. The group `billing` has read all of them; `shipping` stopped at an order whose weight
    is not a number.
    """
    for minute in range(180):
        fields = {"order": minute, "weight": "heavy" if minute == 90 else minute % 7}
        server.xadd("orders", fields, id=f"{now - (180 - minute) * _MINUTE}-0")
    for group in ("billing", "shipping"):
        server.xgroup_create("orders", group, id="0")
    read = server.xreadgroup("billing", "bill-1", {"orders": ">"})
    server.xack("orders", "billing", *(each for each, _ in read[0][1]))
    for consumer, count in (("ship-1", 90), ("ship-2", 1)):
        read = server.xreadgroup("shipping", consumer, {"orders": ">"}, count=count)
        if consumer == "ship-1":
            server.xack("orders", "shipping", *(each for each, _ in read[0][1]))
    poison = read[0][1][0][0]
    server.xclaim("orders", "shipping", "ship-2", 0, [poison], idle=50 * _MINUTE, retrycount=7, justid=True)


def _others(server: redis.Redis, now: int) -> None:
    """Add clicks with two groups, visits of two days, two dead letters, and a user without some permissions."""
    for second in range(20):
        server.xadd("clicks", {"page": "home"}, id=f"{now - (20 - second) * 1000}-0")
    server.xgroup_create("clicks", "site", id=f"{now - 3000}-0")
    server.xgroup_create("clicks", "archive", id=f"{now - 10_000}-0")
    for hour in (9, 12, 18, 30):
        server.xadd("visits", {"page": "home", "hour": hour}, id=f"{_DAY + hour * 60 * _MINUTE}-0")
    for order, reason in ((17, "delivered more than 5 times"), (23, "delivered more than 5 times")):
        origin = {"_original_stream": "orders", "_original_id": f"{now - 9_000_000}-{order}"}
        server.xadd("failed-orders", {**origin, "_original_deliveries": 6, "_reason": reason, "order": order})
    server.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "resetkeys", "~orders", *_RIGHTS)


def _report(server: redis.Redis, now: int) -> None:
    """Add a report of the query's last batch in the format of StreamMonitor."""
    each = StreamReport(
        query="clicks-to-delta",
        batch=0,
        stream="clicks",
        position=f"{now - 5000}-0",
        latest=f"{now - 1000}-0",
        lag_entries=4,
        lag_exact=True,
        lag_ms=4000,
        oldest_unread_ms=4000,
        group="archive",
        pending=0,
        entries=16,
        entries_per_second=3.2,
        rejected=0,
        lost=0,
    )
    words = to_fields(summary(each.query, "d3b0", 0, 16, 5000, [each]))
    server.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)))


def _checkpoint(now: int, directory: Path) -> None:
    """Write the checkpoint of a query that reads `clicks` with the group `archive`.

    The group's position is before the checkpoint's.
    """
    source = Source("range", ("clicks",), group="archive", query="d3b0")
    end = Offsets({"clicks": StreamId(now - 5000, 0)}, {"clicks": 16}, source=source)
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "metadata").write_text('{"id":"d3b0"}')
    (directory / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(end.to_json())}")
    (directory / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')


def main() -> int:
    """Fill the server; return 1 if it already has keys."""
    server = redis.Redis.from_url(os.environ["PYSTREAMS_URL"], decode_responses=True)
    if server.dbsize():
        print("The server already has keys. Use an empty server.", file=sys.stderr)
        return 1
    now = int(time.time() * 1000)
    _orders(server, now)
    _others(server, now)
    _report(server, now)
    _checkpoint(now, Path("checkpoint"))
    print("Ready.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
