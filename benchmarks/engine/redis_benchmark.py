"""redis-benchmark on redis-server and the engine: python -m benchmarks.engine.redis_benchmark

It prints the requests per second of tests with strings and hashes for both servers, and the ratio of the engine's to
redis-server's. The purpose is to find commands in which the engine, which runs commands in Python, is far slower than
redis-server, which runs them in C.
"""

from __future__ import annotations

import argparse
import csv
import subprocess

from benchmarks import servers

_TESTS = "ping_inline,ping_mbulk,set,get,incr,hset,mset"


def rates(port: int, requests: int, pipeline: int) -> dict[str, float]:
    """Return the requests per second of each test."""
    command = ["redis-benchmark", "-p", str(port), "-t", _TESTS, "-n", str(requests), "-P", str(pipeline), "--csv"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {row["test"]: float(row["rps"]) for row in csv.DictReader(done.stdout.splitlines())}


def main() -> None:
    """Measure both servers, one after another."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.redis_benchmark", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000, help="number of requests per test")
    parser.add_argument("--pipeline", type=int, default=1, help="number of requests per pipeline")
    options = parser.parse_args()
    of_engine, of_redis = (rates(server.port, options.requests, options.pipeline) for server in servers.in_turn())
    print(f"{'test':45}{'redis-server':>14}{'engine':>12}{'ratio':>8}")
    for test, rate in of_redis.items():
        print(f"{test[:44]:45}{rate:14,.0f}{of_engine[test]:12,.0f}{of_engine[test] / rate:8.2f}")


if __name__ == "__main__":
    main()
