"""taskiq-redis: tasks over a list, with results."""

from __future__ import annotations

import asyncio

from common import AGAIN, DEADLINE, JOBS, half, mode, report
from taskiq.api import run_receiver_task
from taskiq.exceptions import TaskiqResultTimeoutError
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

role, url = mode()
broker = ListQueueBroker(url=url, queue_name="taskiq").with_result_backend(RedisAsyncResultBackend(redis_url=url))


@broker.task(task_name="square")
async def square(number: int) -> int:
    await asyncio.sleep(0.02)
    return number * number


async def drive() -> None:
    await broker.startup()
    done: dict[int, int] = {}
    reported = False

    async def result(number: int) -> None:
        nonlocal reported
        while number not in done:
            task = await square.kiq(number)
            try:
                done[number] = (await task.wait_result(check_interval=0.05, timeout=AGAIN)).return_value
            except TaskiqResultTimeoutError:
                continue
        if len(done) >= JOBS // 2 and not reported:
            reported = True
            half()

    await asyncio.wait_for(asyncio.gather(*(result(number) for number in range(JOBS))), DEADLINE)
    report(squares=[done[number] for number in range(JOBS)])
    await broker.shutdown()


async def work() -> None:
    broker.is_worker_process = True
    await broker.startup()
    await run_receiver_task(broker)


asyncio.run(work() if role == "worker" else drive())
