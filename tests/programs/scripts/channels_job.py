"""channels_redis: workers reply to messages on a channel; the driver receives the replies in a group."""

from __future__ import annotations

import asyncio
import time

from channels_redis.core import RedisChannelLayer
from common import AGAIN, DEADLINE, JOBS, half, mode, report

role, url = mode()
#: The timeout, in seconds, is longer than the five seconds for which channels_redis blocks, because the default timeout
#: of redis-py 8 is five seconds too.
HOST = {"address": url, "socket_timeout": 20}


async def work() -> None:
    layer = RedisChannelLayer(hosts=[HOST])
    while True:
        message = await layer.receive("work")
        await asyncio.sleep(0.02)
        number = message["number"]
        await layer.group_send("answers", {"type": "answer", "number": number, "square": number * number})


async def drive() -> None:
    layer = RedisChannelLayer(hosts=[HOST])
    channel = await layer.new_channel()
    await layer.group_add("answers", channel)
    done: dict[int, int] = {}
    end, reported = time.monotonic() + DEADLINE, False
    waiting: list[int] = []
    while len(done) < JOBS and time.monotonic() < end:
        if not waiting:
            for number in set(range(JOBS)) - done.keys():
                await layer.send("work", {"type": "square", "number": number})
            waiting = [1]
        try:
            message = await asyncio.wait_for(layer.receive(channel), AGAIN)
        except TimeoutError:
            waiting = []
            continue
        done[message["number"]] = message["square"]
        if len(done) >= JOBS // 2 and not reported:
            reported = True
            half()
    await layer.group_discard("answers", channel)
    report(squares=[done.get(number) for number in range(JOBS)])
    await layer.flush()
    await layer.close_pools()


asyncio.run(work() if role == "worker" else drive())
