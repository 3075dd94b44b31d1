"""Huey: tasks with results, a scheduled one, one that is retried, a lock."""

from __future__ import annotations

import time

from common import DEADLINE, mode, report, squares
from huey import RedisHuey
from huey.exceptions import TaskException

role, url = mode()
huey = RedisHuey("huey_job", url=url)


@huey.task(name="square")
def square(number: int) -> int:
    time.sleep(0.02)
    return number * number


@huey.task(name="fails_once", retries=2, retry_delay=0)
def fails_once() -> str:
    if huey.storage.conn.incr("huey:tries") == 1:
        raise ValueError("the first time")
    return "second"


if role == "worker":
    huey.create_consumer(workers=1, scheduler_interval=1, initial_delay=0.02, max_delay=0.1).run()
else:
    many = squares(square, lambda job: job.get())
    begin = time.monotonic()
    later = square.schedule((7,), delay=1).get(blocking=True, timeout=DEADLINE)
    waited = time.monotonic() - begin >= 1
    once = fails_once()
    end = time.monotonic() + DEADLINE
    again = None
    while again is None and time.monotonic() < end:
        try:
            again = once.get(blocking=True, timeout=1)
        except TaskException:  # The first attempt's error stays until the second attempt has run.
            once.reset()
    with huey.lock_task("lock"):
        locked = huey.is_locked("lock")
    report(squares=many, later=later, waited=waited, again=again, locked=[locked, huey.is_locked("lock")])
