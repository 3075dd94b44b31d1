"""arq: jobs with results, a deferred job, a job with a fixed ID that is queued twice, a cron job."""

from __future__ import annotations

import asyncio
import time

from arq import create_pool
from arq.connections import RedisSettings
from arq.cron import cron
from arq.worker import Worker, func
from common import AGAIN, DEADLINE, JOBS, half, mode, report


async def square(context: dict, number: int) -> int:
    await asyncio.sleep(0.02)
    return number * number


async def tick(context: dict) -> None:
    await context["redis"].rpush("ticks", context["job_id"])


async def drive(url: str) -> None:
    pool = await create_pool(RedisSettings.from_dsn(url))
    done: dict[int, int] = {}
    reported = False

    async def result(number: int) -> None:
        nonlocal reported
        while number not in done:
            job = await pool.enqueue_job("square", number)
            try:
                done[number] = await job.result(timeout=AGAIN, poll_delay=0.05)
            except TimeoutError:
                continue
        if len(done) >= JOBS // 2 and not reported:
            reported = True
            half()

    await asyncio.wait_for(asyncio.gather(*(result(number) for number in range(JOBS))), DEADLINE)
    begin = time.monotonic()
    later = await pool.enqueue_job("square", 7, _defer_by=1, _job_id="later")
    twice = await pool.enqueue_job("square", 7, _defer_by=1, _job_id="later")
    value = await later.result(timeout=DEADLINE, poll_delay=0.05)
    waited = time.monotonic() - begin >= 1
    # Each second has one tick, of either worker.
    before = await pool.llen("ticks")
    while len(ticks := await pool.lrange("ticks", before, -1)) < 2:
        await asyncio.sleep(0.05)
    report(
        squares=[done[number] for number in range(JOBS)],
        later=value,
        twice=twice is not None,
        waited=waited,
        ticks=len(ticks) == len(set(ticks)),
    )


role, url = mode()
if role == "worker":
    Worker(
        [func(square, timeout=2)],
        cron_jobs=[cron(tick, second=set(range(60)))],
        redis_settings=RedisSettings.from_dsn(url),
        poll_delay=0.05,
    ).run()
else:
    asyncio.run(drive(url))
