"""FastStream: a group of consumers of a stream, with a second subscriber for the entries of consumers that died.

python faststream_job.py work URL NAME | publish URL
"""

from __future__ import annotations

import asyncio
import os
import sys

from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub

role, url, *name = sys.argv[1:]
broker = RedisBroker(url)


async def publish() -> None:
    await broker.connect()
    for number in range(int(os.environ["JOBS"])):
        await broker.publish(number, stream="in")
    await broker.stop()


async def square(number: int) -> None:
    await asyncio.sleep(0.02)
    await broker.publish(f"square:{number}:{number * number}", stream="out")


if role == "work":
    group = {"group": "workers", "consumer": name[0], "max_records": 4}
    broker.subscriber(stream=StreamSub("in", **group, last_id=">", polling_interval=100))(square)
    broker.subscriber(stream=StreamSub("in", **group, min_idle_time=500, polling_interval=100))(square)
    asyncio.run(FastStream(broker).run())
else:
    asyncio.run(publish())
