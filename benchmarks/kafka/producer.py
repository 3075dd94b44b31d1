"""Append entries to a stream at a fixed rate: python -m benchmarks.kafka.producer PORT STREAM RATE COUNT

It works like Kafka's ProducerPerformance: all entries that are due are sent together, up to 200 times per second.
"""

from __future__ import annotations

import sys
import time

from benchmarks.engine.client import Connection, command

_PAUSE_SECONDS = 0.005


def main() -> None:
    """Append as the arguments say."""
    port, stream, rate, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    add = command("XADD", stream, "*", "sensor-id", 1234, "temperature", "19.8")
    begin, sent = time.monotonic(), 0
    with Connection(int(port)) as connection:
        while sent < count:
            due = min(count, int((time.monotonic() - begin) * rate)) - sent
            if due:
                connection.lines(add * due, 2 * due)
                sent += due
            time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
