"""redis-py: a counter protected by a lock that two workers share and that a killed worker holds;
scripts; a pipeline.
"""

from __future__ import annotations

import os
import time

import redis
from common import DEADLINE, JOBS, half, mode, report
from redis.exceptions import LockError

role, url = mode()
client = redis.Redis.from_url(url)
add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")

if role == "worker":
    while True:
        with client.lock("lock", timeout=2, sleep=0.01):
            value = int(client.get("counter") or 0)
            time.sleep(0.02)
            client.set("counter", value + 1)
            client.rpush("workers", os.getpid())
else:
    end, reported = time.monotonic() + DEADLINE, False
    while client.llen("workers") < JOBS and time.monotonic() < end:
        if client.llen("workers") >= JOBS // 2 and not reported:
            reported = True
            half()
        time.sleep(0.02)
    with client.lock("lock", timeout=5, sleep=0.01) as lock:
        # A worker increments the counter, then appends to the list. Two workers in the lock would lose increments.
        differs = int(client.get("counter")) - client.llen("workers")
        lock.extend(1)
        lock.reacquire()
        try:
            client.lock("lock", blocking=False).release()
            released = True
        except LockError:
            released = False
    with client.pipeline() as pipe:
        pipe.incr("piped")
        add(keys=["piped"], args=[41], client=pipe)
        piped = pipe.execute()
    report(differs=abs(differs) <= 1, released=released, piped=piped)
