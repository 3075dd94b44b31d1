"""Python libraries that keep caches, limits, locks and collections on a server; the program uses a little of each.

Run as ``python libraries.py URL``, it prints the results of all libraries as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import django
import redis
from celery import Celery
from celery.schedules import schedule
from django.conf import settings
from dogpile.cache import make_region
from flask import Flask
from flask_caching import Cache
from limits import parse, storage, strategies
from pottery import NextID, RedisCounter, RedisDeque, RedisDict, RedisList, RedisSet, RedisSimpleQueue, Redlock
from redbeat import RedBeatSchedulerEntry
from rq import Queue
from rq_scheduler import Scheduler
from walrus import Database, IntegerField, Model, TextField

url = sys.argv[1]


def rate_limits() -> Any:
    found = {}
    for kind in ("FixedWindow", "MovingWindow", "SlidingWindowCounter"):
        limiter = getattr(strategies, f"{kind}RateLimiter")(storage.storage_from_string(url))
        limit = parse("3/hour")
        hits = [limiter.hit(limit, kind) for _ in range(5)]
        left = limiter.get_window_stats(limit, kind).remaining
        limiter.clear(limit, kind)
        found[kind] = [hits, left, limiter.test(limit, kind)]
    return found


def django_caches() -> Any:
    backends = {"default": "django_redis.cache.RedisCache", "plain": "django.core.cache.backends.redis.RedisCache"}
    settings.configure(CACHES={name: {"BACKEND": path, "LOCATION": url} for name, path in backends.items()})
    django.setup()
    from django.contrib.sessions.backends.cache import SessionStore  # Importable only after Django is set up.
    from django.core.cache import caches

    found: list[Any] = []
    for name in backends:
        cache = caches[name]
        cache.set("a", {"x": 1}, 60)
        cache.set_many({"b": 1, "c": 2})
        found += [cache.get("a"), cache.incr("b"), cache.get_many(["b", "c"]), cache.add("a", 2), cache.touch("a", 30)]
        found += [cache.get_or_set("d", lambda: 5), cache.delete_many(["b", "c"]), cache.has_key("a")]
    cache = caches["default"]
    found += [sorted(cache.keys("*")), cache.ttl("a") > 0, cache.delete_pattern("a*")]
    with cache.lock("lock", timeout=5):
        found.append(cache.has_key("lock"))
    session = SessionStore()
    session["k"] = "v"
    session.save()
    found.append(SessionStore(session.session_key)["k"])
    cache.clear()
    return found


def flask_cache() -> Any:
    app, calls = Flask("libraries"), []
    cache = Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": url})
    with app.app_context():

        @cache.memoize(50)
        def twice(number: int) -> int:
            calls.append(number)
            return 2 * number

        results = [twice(2), twice(2)]
        cache.delete_memoized(twice)
        results.append(twice(2))
        cache.set_many({"a": 1, "b": 2})
        return [results, len(calls), cache.get_many("a", "b"), cache.delete("a"), cache.clear()]


def dogpile_cache() -> Any:
    arguments = {"url": url, "distributed_lock": True, "redis_expiration_time": 60, "lock_timeout": 5}
    region, calls = make_region().configure("dogpile.cache.redis", arguments=arguments), []

    @region.cache_on_arguments()
    def more(number: int) -> int:
        calls.append(number)
        return number + 1

    results = [more(1), more(1)]
    more.invalidate(1)
    results.append(more(1))
    together = [threading.Thread(target=more, args=(9,)) for _ in range(5)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    return [results, calls]


def walrus_containers() -> Any:
    address = urlsplit(url)
    db = Database(host=address.hostname, port=address.port)
    numbers, words, scores = db.List("wl"), db.Set("ws"), db.ZSet("wz")
    numbers.extend([1, 2, 3])
    words.add("a", "b")
    others = db.Set("ws2")
    others.add("b", "c")
    scores.add({"a": 1, "b": 2, "c": 3})
    found: list[Any] = [numbers[0:2], sorted(words & others), sorted(words | others), sorted(words - others)]
    found += [list(scores.range(0, -1)), scores.rank("b"), scores.incr("a", 5)]
    with db.lock("wlock", ttl=3000):
        found.append(db.exists("wlock"))
    limit = db.rate_limit("limit", limit=2, per=60)
    found.append([limit.limit("user") for _ in range(4)])
    words_of = db.autocomplete()
    words_of.store("1", "hello world")
    words_of.store("2", "hello there")
    found.append(sorted(words_of.search("hel")))
    stream = db.Stream("wst")
    stream.add({"a": "1"})
    group = db.consumer_group("wcg", ["wst"])
    group.create()
    group.set_id("0")
    found.append(len(group.read()))

    class User(Model):
        __database__ = db
        name = TextField(primary_key=True)
        age = IntegerField(index=True)
        about = TextField(fts=True, default="")

    User.create(name="a", age=3, about="likes tea")
    User.create(name="b", age=5, about="likes rum")
    found += [
        [user.name for user in User.query(User.age > 3)],
        [user.name for user in User.query(User.about.search("tea"))],
    ]
    graph = db.graph("graph")
    graph.store("x", "likes", "y")
    graph.store("z", "likes", "y")
    return [*found, sorted(row["s"] for row in graph.query(p="likes", o="y"))]


def pottery_collections() -> Any:
    client = redis.Redis.from_url(url)
    table = RedisDict({"a": 1}, redis=client, key="pd")
    table["b"] = [1]
    members = RedisSet({1, 2}, redis=client, key="ps")
    members.add(3)
    members.discard(1)
    items = RedisList([1, 2, 3], redis=client, key="pl")
    items.insert(1, 9)
    del items[0]
    ring = RedisDeque([1, 2], maxlen=2, redis=client, key="pq")
    ring.append(3)
    ring.rotate(1)
    counter = RedisCounter("aab", redis=client, key="pc")
    counter.update("b")
    lock = Redlock(key="lock", masters={client}, auto_release_time=2)
    locked = [lock.acquire(), Redlock(key="lock", masters={client}).acquire(blocking=False)]
    lock.extend()
    lock.release()
    ids = NextID(key="ids", masters={client})
    queue = RedisSimpleQueue(redis=client, key="queue")
    queue.put(5)
    return [
        [table.to_dict(), sorted(members), list(items), list(ring), sorted(counter.items())],
        [locked, lock.locked(), next(ids), next(ids), queue.get()],
    ]


def redbeat_schedule() -> Any:
    app = Celery("libraries", broker=url)
    app.conf.redbeat_redis_url = url
    entry = RedBeatSchedulerEntry("again", "tasks.again", schedule(run_every=100), app=app)
    entry.save()
    found = RedBeatSchedulerEntry.from_key(entry.key, app=app)
    client = redis.Redis.from_url(url)
    saved = [found.name, client.zcard("redbeat::schedule")]
    found.delete()
    return [saved, client.zcard("redbeat::schedule")]


def rq_schedule() -> Any:
    client = redis.Redis.from_url(url)
    scheduler = Scheduler(connection=client)
    scheduler.enqueue_in(timedelta(seconds=-1), print, "now")
    later = scheduler.enqueue_in(timedelta(hours=1), print, "later")
    due = [job.args[0] for job in scheduler.get_jobs_to_queue()]
    scheduler.register_birth()
    if scheduler.acquire_lock():
        scheduler.enqueue_jobs()
    scheduler.register_death()
    scheduler.cancel(later)
    return [due, scheduler.count(), len(Queue(connection=client))]


LIBRARIES: list[Callable[[], Any]] = [
    rate_limits,
    django_caches,
    flask_cache,
    dogpile_cache,
    walrus_containers,
    pottery_collections,
    redbeat_schedule,
    rq_schedule,
]


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    print(json.dumps({library.__name__: library() for library in LIBRARIES}, default=text, sort_keys=True))
