"""Latency from XADD to a waiting consumer: the test of Redis's introduction to streams, on engine and redis-server.

A producer adds 10,000 messages per second at fixed times, one command each. Ten consumers of one group on one stream
wait with XREADGROUP COUNT 10000 BLOCK, and acknowledge received messages in one write with their next XREADGROUP. All
are sockets of one process, which sleeps in select until a message is due or a reply arrives. A message contains the
time at which it was sent; its latency ends when its reply has been parsed. The delay of sending is measured too,
because a client that cannot keep up would make any server look slow.

Run alone with `python -m benchmarks.engine.latency`. `python -m benchmarks` shows the share of messages within 2 ms and
the 99.9th percentile.
"""

from __future__ import annotations

import argparse
import gc
import select
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass

import hiredis
import numpy as np
import numpy.typing as npt

from benchmarks import servers
from benchmarks.engine.client import Connection, command

KEY, GROUP = "latency", "group"
RATE = 10_000
CONSUMERS = 10
COUNT = 10_000
WARM_UP_SECONDS = 1.0
#: Limit for the share of messages that is reported.
LIMIT_MS = 2.0


@dataclass(frozen=True)
class Latencies:
    """Results of one run: latency of each message in milliseconds, and the delay with which it was sent."""

    milliseconds: npt.NDArray[np.float64]
    late: npt.NDArray[np.float64]

    def within(self, limit_ms: float) -> float:
        """Return the percentage of messages with at most this latency."""
        return float(100 * np.mean(self.milliseconds <= limit_ms))

    def percentile(self, share: float) -> float:
        """Return this percentile of the latencies in milliseconds."""
        return float(np.percentile(self.milliseconds, share))

    def sent_in_time(self) -> float:
        """Return the percentage of messages that the client sent with at most ``LIMIT_MS`` delay."""
        return float(100 * np.mean(self.late <= LIMIT_MS))

    def __str__(self) -> str:
        shares = ", ".join(f"{limit:g} ms {self.within(limit):.3f} %" for limit in (1, 2, 3, 5))
        p50, p99, p999 = np.percentile(self.milliseconds, [50, 99, 99.9])
        late = np.percentile(self.late, 99.9)
        return (
            f"within {shares}; p50 {p50:.2f}, p99 {p99:.2f}, p99.9 {p999:.2f}, longest {self.milliseconds.max():.2f} ms"
            f" (sent late: p99.9 {late:.2f} ms, {100 - self.sent_in_time():.3f} % by more than {LIMIT_MS:g} ms)"
        )


class _Consumer:
    """A consumer that waits for messages on a socket."""

    def __init__(self, port: int, number: int) -> None:
        self.socket = _connect(port)
        self._reader = hiredis.Reader()
        self._read = command(
            "XREADGROUP", "GROUP", GROUP, f"consumer-{number}", "COUNT", COUNT, "BLOCK", 0, "STREAMS", KEY, ">"
        )
        self.socket.sendall(self._read)

    def receive(self, latencies: list[int]) -> None:
        """Receive replies; acknowledge their messages, and wait for more."""
        self._reader.feed(self.socket.recv(1 << 20))
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, hiredis.ReplyError):
                raise RuntimeError(str(reply))
            if isinstance(reply, int):
                continue
            now = time.monotonic_ns()
            entries = reply[0][1]
            latencies += [now - int(fields[1]) for _, fields in entries]
            self.socket.sendall(command("XACK", KEY, GROUP, *[entry_id for entry_id, _ in entries]) + self._read)


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def measure(port: int, seconds: float, pending: int) -> Latencies:
    """Run the test on an empty server with ``pending`` unacknowledged messages."""
    with Connection(port) as control:
        control.reply(command("FLUSHALL"))
        control.reply(command("XGROUP", "CREATE", KEY, GROUP, 0, "MKSTREAM"))
        leave_pending(control, pending)
    gc.collect()
    gc.disable()
    try:
        return _run(port, seconds)
    finally:
        gc.enable()


def leave_pending(control: Connection, pending: int) -> None:
    """Deliver this many messages to a consumer that never acknowledges them."""
    add = command("XADD", KEY, "*", "time", time.monotonic_ns())
    for _ in range(pending // 1000):
        control.lines(add * 1000, 2000)
    for _ in range(pending // COUNT):
        control.whole(command("XREADGROUP", "GROUP", GROUP, "gone", "COUNT", COUNT, "STREAMS", KEY, ">"))


def _run(port: int, seconds: float) -> Latencies:
    total = int((seconds + WARM_UP_SECONDS) * RATE)
    step = 1_000_000_000 // RATE
    latencies: list[int] = []
    late: list[int] = []
    with ExitStack() as stack:
        consumers = {consumer.socket: consumer for consumer in (_Consumer(port, number) for number in range(CONSUMERS))}
        for connection in consumers:
            stack.enter_context(connection)
        producer = stack.enter_context(_connect(port))
        listening = [producer, *consumers]
        sent = 0
        begin = time.monotonic_ns() + 10_000_000
        deadline = begin + int((seconds + WARM_UP_SECONDS + 30) * 1e9)
        while len(latencies) < total:
            now = time.monotonic_ns()
            if now > deadline:
                raise RuntimeError(f"only {len(latencies)} of {total} messages arrived")
            while sent < total and begin + sent * step <= now:
                late.append(now - begin - sent * step)
                producer.sendall(command("XADD", KEY, "*", "time", time.monotonic_ns()))
                sent += 1
                now = time.monotonic_ns()
            wait = max(begin + sent * step - now, 0) / 1e9 if sent < total else 1.0
            for connection in select.select(listening, (), (), wait)[0]:
                if connection is producer:
                    producer.recv(1 << 16)
                else:
                    consumers[connection].receive(latencies)
    warm = int(WARM_UP_SECONDS * RATE)
    return Latencies(np.array(latencies[warm:]) / 1e6, np.array(late[warm:]) / 1e6)


def main() -> None:
    """Measure all servers in turn, several times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.latency", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="duration of each run (default 10)")
    parser.add_argument("--repetitions", type=int, default=2, help="runs of each kind on each server (default 2)")
    parser.add_argument(
        "--pending", type=int, default=1_000_000, help="unacknowledged messages in the second kind of run"
    )
    parser.add_argument("--only", default="", metavar="SERVER", help="engine or redis")
    options = parser.parse_args()
    starts = {"engine": servers.engine_command(), "redis": servers.redis_command()}
    for pending in (0, options.pending):
        print(f"{RATE} messages a second, {CONSUMERS} consumers, {pending} unacknowledged")
        for _ in range(options.repetitions):
            for name, start in starts.items():
                if start is not None and options.only in name:
                    with servers.running(name, start) as server:
                        print(f"  {name:7} {measure(server.port, options.seconds, pending)}", flush=True)


if __name__ == "__main__":
    main()
