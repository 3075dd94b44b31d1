"""FastStream: a group of consumers of a stream, whose results the driver reads from a list."""

from __future__ import annotations

import asyncio
import os
import time

import redis.asyncio as redis
from common import AGAIN, DEADLINE, JOBS, half, mode, report
from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub

role, url = mode()
broker = RedisBroker(url)


async def drive() -> None:
    await broker.connect()
    for number in range(JOBS):
        await broker.publish(number, stream="in")
    done: dict[int, int] = {}
    end, news, reported = time.monotonic() + DEADLINE, time.monotonic(), False
    client = redis.Redis.from_url(url)
    while len(done) < JOBS and time.monotonic() < end:
        found = await client.blpop(["out"], timeout=1)
        if found is not None:
            number, square = map(int, found[1].split(b" "))
            done[number], news = square, time.monotonic()
        if len(done) >= JOBS // 2 and not reported:
            reported = True
            half()
        if time.monotonic() - news > AGAIN:
            news = time.monotonic()
            for number in set(range(JOBS)) - done.keys():
                await broker.publish(number, stream="in")
    report(squares=[done.get(number) for number in range(JOBS)])
    await client.aclose()
    await broker.stop()


if role == "worker":

    @broker.subscriber(stream=StreamSub("in", group="workers", consumer=f"w{os.getpid()}", polling_interval=10))
    async def handle(number: int) -> None:
        await asyncio.sleep(0.02)
        async with redis.Redis.from_url(url) as client:
            await client.rpush("out", f"{number} {number * number}")

    asyncio.run(FastStream(broker).run())
else:
    asyncio.run(drive())
