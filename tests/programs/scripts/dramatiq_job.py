"""Dramatiq: messages with results, a delayed one, one that is retried, a rate limit."""

from __future__ import annotations

import time

import dramatiq
from common import DEADLINE, mode, report, squares
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as Limits
from dramatiq.results import ResultMissing, Results
from dramatiq.results.backends import RedisBackend

role, url = mode()
broker = RedisBroker(url=url, heartbeat_timeout=2000, maintenance_chance=1_000_000)
broker.add_middleware(Results(backend=RedisBackend(url=url)))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def square(number: int) -> int:
    time.sleep(0.02)
    return number * number


@dramatiq.actor(store_results=True, max_retries=3, min_backoff=50)
def fails_once(key: str) -> str:
    if broker.client.incr(key) == 1:
        raise ValueError("the first time")
    return "second"


if role == "worker":
    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    while True:
        time.sleep(1)
else:

    def result(message: dramatiq.Message) -> int | None:
        try:
            return message.get_result()
        except ResultMissing:
            return None

    many = squares(square.send, result)
    begin = time.monotonic()
    later = square.send_with_options(args=(7,), delay=1000).get_result(block=True, timeout=int(DEADLINE * 1000))
    waited = time.monotonic() - begin >= 1
    again = fails_once.send("dramatiq:tries").get_result(block=True, timeout=int(DEADLINE * 1000))
    limit = ConcurrentRateLimiter(Limits(url=url), "limit", limit=1)
    with limit.acquire() as first, limit.acquire(raise_on_failure=False) as second:
        report(squares=many, later=later, waited=waited, again=again, limited=[first, second])
