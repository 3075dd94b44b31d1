"""RQ: jobs with results, a job that depends on others, one that fails and is retried."""

from __future__ import annotations

import os
import time

import redis
from common import DEADLINE, mode, report, squares
from rq import Queue, Retry, SimpleWorker


def square(number: int) -> int:
    time.sleep(0.02)
    return number * number


def fails_once(key: str) -> str:
    if redis.Redis.from_url(os.environ["JOB_URL"]).incr(key) == 1:
        raise ValueError("the first time")
    return "second"


if __name__ == "__main__":
    role, url = mode()
    connection = redis.Redis.from_url(url)
    queue = Queue(connection=connection)
    if role == "worker":
        os.environ["JOB_URL"] = url
        SimpleWorker([queue], connection=connection, name=f"w{os.getpid()}").work(logging_level="ERROR")
    else:

        def wait(job) -> object:
            end = time.monotonic() + DEADLINE
            while job.return_value() is None and time.monotonic() < end:
                time.sleep(0.02)
            return job.return_value()

        many = squares(lambda number: queue.enqueue("rq_job.square", number), lambda job: job.return_value())
        first = queue.enqueue("rq_job.square", 5)
        then = queue.enqueue("rq_job.square", 6, depends_on=first)
        again = queue.enqueue("rq_job.fails_once", "rq:tries", retry=Retry(max=2))
        report(squares=many, then=wait(then), again=wait(again))
