"""Scripts on redis-server and the engine, in processor time: python -m benchmarks.engine.scripts

Both servers run scripts with Lua; the commands that scripts call run in C in redis-server, and in Python in the engine.
The scripts are typical ones: one that returns immediately, a lock's compare-and-delete, a job added and taken as
BullMQ's scripts do, and a loop of a thousand calls. The output is the server's processor time per run in microseconds.
It is the minimum of some rounds, which other work on the machine affects little.
"""

from __future__ import annotations

import argparse
import subprocess

from benchmarks import processor_time, servers

_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
_JOB = """
local id = redis.call('INCR', KEYS[1])
local key = ARGV[1] .. id
redis.call('HSET', key, 'name', ARGV[2], 'data', ARGV[3], 'timestamp', ARGV[4], 'delay', 0, 'priority', 0)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 10000, '*', 'event', 'added', 'jobId', id, 'name', ARGV[2])
redis.call('LPUSH', KEYS[3], id)
redis.call('ZADD', KEYS[4], 0, '0:' .. id)
redis.call('LPOP', KEYS[3])
redis.call('ZPOPMIN', KEYS[4])
redis.call('HGETALL', key)
redis.call('DEL', key)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 10000, '*', 'event', 'completed', 'jobId', id)
return id
"""
_LOOP = "for i = 1, 1000 do redis.call('incr', KEYS[1]) end return redis.call('get', KEYS[1])"
#: Name -> words of the command, and the number of its runs relative to those of `return 1`.
CASES: dict[str, tuple[list[str], float]] = {
    "return 1": (["EVAL", "return 1", "0"], 1),
    "release a lock": (["EVAL", _RELEASE, "1", "lock", "token"], 1),
    "a job, ten calls": (["EVAL", _JOB, "4", "id", "events", "wait", "prioritized", "job:", "send", "{}", "17"], 0.2),
    "a loop, 1,000 calls": (["EVAL", _LOOP, "1", "number"], 0.01),
    "SET, no script": (["SET", "key", "value"], 1),
}


def microseconds(server: servers.Server, words: list[str], requests: int, pipeline: int, rounds: int) -> float:
    """Return the server's processor time per request, in the best of some rounds."""
    command = ["redis-benchmark", "-p", str(server.port), "-n", str(requests), "-c", "20", "-P", str(pipeline), "-q"]
    found = []
    for _ in range(rounds):
        before = processor_time.spent(server.pid)
        subprocess.run([*command, *words], check=True, stdout=subprocess.DEVNULL)
        found.append(processor_time.since(before, processor_time.spent(server.pid)) / requests * 1e6)
    return min(found)


def main() -> None:
    """Measure both servers, one after another."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.scripts", description=__doc__)
    parser.add_argument("--requests", type=int, default=40_000, help="number of runs of `return 1`")
    parser.add_argument("--pipeline", type=int, default=16, help="number of requests per pipeline")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; the best one counts")
    options = parser.parse_args()
    found = [
        [
            microseconds(server, words, int(options.requests * share), options.pipeline, options.rounds)
            for words, share in CASES.values()
        ]
        for server in servers.in_turn()
    ]
    print(f"{'microseconds of processor time':32}{'engine':>10}{'redis-server':>14}{'ratio':>8}")
    for name, of_engine, of_redis in zip(CASES, *found, strict=True):
        print(f"{name:32}{of_engine:10,.1f}{of_redis:14,.1f}{of_engine / max(of_redis, 0.1):8.1f}")


if __name__ == "__main__":
    main()
