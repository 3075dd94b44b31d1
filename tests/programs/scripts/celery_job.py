"""Celery: tasks with results, a chord, a task with a countdown; messages with priorities."""

from __future__ import annotations

import os
import time

from celery import Celery, chord, group
from common import DEADLINE, mode, report, squares

role, url = mode()
app = Celery("celery_job", broker=url, backend=url)
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={"visibility_timeout": 4},
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(name="square")
def square(number: int) -> int:
    time.sleep(0.02)
    return number * number


@app.task(name="total")
def total(values: list[int]) -> int:
    return sum(values)


if role == "worker":
    name = f"w{os.getpid()}@%h"
    app.worker_main(["worker", "--pool=solo", "-l", "ERROR", "--without-gossip", "--without-mingle", "-n", name])
else:
    many = squares(square.delay, lambda job: job.get(timeout=1) if job.ready() else None)
    together = chord(group(square.s(number) for number in range(10)), total.s())()
    begin = time.monotonic()
    later = square.apply_async((7,), countdown=1)
    with app.connection() as connection, connection.SimpleQueue("ranked") as ranked:
        for priority in (9, 0, 5):
            ranked.put(priority, priority=priority)
        by_priority = []
        for _ in range(3):
            message = ranked.get(timeout=DEADLINE)
            by_priority.append(message.payload)
            message.ack()
    report(
        squares=many,
        chord=together.get(timeout=DEADLINE),
        later=later.get(timeout=DEADLINE),
        by_priority=by_priority,
        waited=time.monotonic() - begin >= 1,
    )
