"""redis-py on the engine and on Redis: every method of StreamCommands, sync in RESP2 and async in RESP3.

Features newer than 7.0 are tested only on the engine, against the specification. A new method of redis-py fails the
first test until a scene calls it.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.commands.core import StreamCommands

from tests import servers
from tests.servers import Running
from tests.suite.tools import needed
from tests.suite.waiting import DEADLINE

#: A scene: calls (method, arguments, named arguments) in order, on an empty server.
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(name: str, /, *arguments: Any, **named: Any) -> Call:
    return name, arguments, named


ENTRIES = [call("xadd", "s", {"n": number, "text": f"t{number}"}, id=f"{number}-1") for number in range(1, 6)]

SCENES: dict[str, list[Call]] = {
    "entries": [
        *ENTRIES,
        call("xadd", "s", {"f": "v"}, id="1-1"),
        call("xadd", "missing", {"f": "v"}, nomkstream=True),
        call("xrange", "s", min="(2-1", max="4"),
        call("xrevrange", "s", count=2),
        call("xread", {"s": "4-1", "missing": "0"}),
        call("xread", {"s": "5-1"}, block=1),
        call("xdel", "s", "2-1", "9-9"),
        call("xtrim", "s", minid="4-0", approximate=False),
        call("xlen", "s"),
        call("xinfo_stream", "s"),
    ],
    "groups": [
        *ENTRIES,
        call("xgroup_create", "s", "g", "0"),
        call("xgroup_create", "s", "g", "0"),
        call("xgroup_createconsumer", "s", "g", "c"),
        call("xgroup_setid", "s", "g", "1-1", entries_read=1),
        call("xinfo_groups", "s"),
        call("xreadgroup", "g", "c", {"s": ">"}, count=3),
        call("xreadgroup", "g", "c", {"s": "0"}),
        call("xreadgroup", "g", "d", {"s": ">"}),
        call("xreadgroup", "g", "c", {"s": ">"}, block=1),
        call("xdel", "s", "2-1"),
        call("xclaim", "s", "g", "d", 0, ["2-1", "3-1"], idle=5000, retrycount=7),
        call("xclaim", "s", "g", "d", 0, ["4-1"], justid=True),
        call("xautoclaim", "s", "g", "e", 0, count=2),
        call("xautoclaim", "s", "g", "e", 0, start_id="4-1", justid=True),
        call("xpending", "s", "g"),
        call("xpending_range", "s", "g", "-", "+", 10, consumername="e", idle=0),
        call("xack", "s", "g", "5-1", "9-9"),
        call("xinfo_consumers", "s", "g"),
        call("xinfo_stream", "s", full=True),
        call("xgroup_delconsumer", "s", "g", "e"),
        call("xgroup_destroy", "s", "g"),
        call("xpending", "s", "g"),
    ],
}

#: Features newer than Debian's server: the calls, and the expected result of the last one.
NEWER: dict[str, tuple[list[Call], Any]] = {
    "xdelex": ([*ENTRIES, call("xdelex", "s", "1-1", "9-9", ref_policy="DELREF")], [1, -1]),
    "xackdel": (
        [
            *ENTRIES,
            call("xgroup_create", "s", "g", "0"),
            call("xreadgroup", "g", "c", {"s": ">"}, count=1),
            call("xackdel", "s", "g", "1-1", "2-1", ref_policy="ACKED"),
        ],
        [1, -1],
    ),
    "xadd idmp": (
        [
            call("xadd", "s", {"f": "v"}, id="*", idmp=("producer", b"1")),
            call("xadd", "s", {"f": "v"}, id="*", idmp=("producer", b"1")),
            call("xlen", "s"),
        ],
        1,
    ),
    "xadd idmpauto": (
        [
            call("xadd", "s", {"f": "v"}, id="*", idmpauto="producer"),
            call("xadd", "s", {"f": "v"}, id="*", idmpauto="producer"),
            call("xlen", "s"),
        ],
        1,
    ),
    "xcfgset": ([*ENTRIES, call("xcfgset", "s", idmp_duration=60, idmp_maxsize=50)], "OK"),
    "xnack": (
        [
            *ENTRIES,
            call("xgroup_create", "s", "g", "0"),
            call("xreadgroup", "g", "c", {"s": ">"}),
            call("xnack", "s", "g", "FAIL", "1-1", "2-1"),
        ],
        2,
    ),
    "xread max_count": ([*ENTRIES, call("xread", {"s": "0"}, max_count=1, max_size=1000)], None),
    "xreadgroup claim": (
        [
            *ENTRIES,
            call("xgroup_create", "s", "g", "0"),
            call("xreadgroup", "g", "c", {"s": ">"}, count=1),
            call("xreadgroup", "g", "d", {"s": ">"}, claim_min_idle_time=0, max_count=2),
        ],
        None,
    ),
    "xtrim ref_policy": ([*ENTRIES, call("xtrim", "s", maxlen=1, approximate=False, ref_policy="KEEPREF")], 4),
}


#: Fields that depend on the time.
_MOMENTS = {"idle", "inactive", "seen-time", "active-time", "time_since_delivered"}
#: Additional fields of servers newer than 7.0.
_ADDED = {"inactive", "active-time", "nacked-count"}
_ADDED_PREFIXES = ("idmp-", "iids-", "pids-")


def settled(value: Any) -> Any:
    """Return a reply without parts that depend on the time or on newer servers."""
    if isinstance(value, dict):
        return {
            key: ("a moment" if key in _MOMENTS else settled(item))
            for key, item in value.items()
            if key not in _ADDED and not str(key).startswith(_ADDED_PREFIXES)
        }
    if isinstance(value, list | tuple):
        if len(value) % 2 == 0 and value and any(str(item) in _MOMENTS for item in value[::2]):
            return settled(dict(zip(value[::2], value[1::2], strict=True)))
        return [settled(item) for item in value]
    # Times within lists, in milliseconds since the epoch.
    return "a moment" if isinstance(value, int) and value > 1_500_000_000_000 else value


def driven(running: Running, proto: int, scene: list[Call]) -> list[Any]:
    """Return the result of each call of a scene; an error is its type and text. RESP3 uses the client for asyncio."""
    client_of = redis.Redis if proto == 2 else redis.asyncio.Redis

    async def run() -> list[Any]:
        client: Any = client_of(port=running.port, protocol=proto, decode_responses=True)
        answers: list[Any] = []
        for name, arguments, named in [call("flushall"), *scene, call("close" if proto == 2 else "aclose")]:
            try:
                found = getattr(client, name)(*arguments, **named)
                answers.append(await found if inspect.isawaitable(found) else found)
            except redis.RedisError as error:
                answers.append((type(error).__name__, str(error)))
        return answers[1:-1]

    return asyncio.run(run())


PROTOCOLS = pytest.mark.parametrize("proto", [2, 3])


def test_every_method_is_called() -> None:
    """Every stream method of redis-py's StreamCommands is called in a scene."""
    methods = {name for name, _ in inspect.getmembers(StreamCommands, inspect.isfunction) if name.startswith("x")}
    scenes = [*SCENES.values(), *(calls for calls, _ in NEWER.values())]
    assert methods - {name for calls in scenes for name, _, _ in calls} == set()


@pytest.mark.redis
@PROTOCOLS
@pytest.mark.parametrize("scene", list(SCENES))
def test_calls_give_the_results_of_redis(ours: Running, real: Running, scene: str, proto: int) -> None:
    """Each call gives the same result on both servers."""
    calls = SCENES[scene]
    here, there = driven(ours, proto, calls), driven(real, proto, calls)
    for request, reply, expected in zip(calls, here, there, strict=True):
        assert settled(reply) == settled(expected), request


@PROTOCOLS
@pytest.mark.parametrize("name", list(NEWER))
def test_features_of_newer_servers(ours: Running, name: str, proto: int) -> None:
    """No call fails, and the last one gives the specified result."""
    calls, last = NEWER[name]
    answers = driven(ours, proto, calls)
    failed = [answer for answer in answers if isinstance(answer, tuple) and str(answer[0]).endswith("Error")]
    assert failed == []
    if last is not None:
        assert answers[-1] == last
    else:
        assert answers[-1]


@PROTOCOLS
def test_commands_other_than_streams(ours: Running, proto: int) -> None:
    """Transactions, channels and server commands work with redis-py, in both protocols."""
    with redis.Redis(port=ours.port, protocol=proto, decode_responses=True, client_name="tester") as client:
        client.flushall()
        assert client.client_getname() == "tester"
        assert client.xadd("s", {"a": "1"}, id="1-1") == "1-1"
        client.xgroup_create("s", "g", "0")
        assert client.xreadgroup("g", "c", {"s": ">"})
        assert client.xack("s", "g", "1-1") == 1
        with client.pipeline() as pipeline:
            pipeline.watch("n")
            pipeline.multi()
            pipeline.incr("n")
            pipeline.xlen("s")
            assert pipeline.execute() == [1, 1]
        with client.pubsub() as channel:
            channel.subscribe("news")
            assert channel.get_message(timeout=DEADLINE)["type"] == "subscribe"
            client.publish("news", "hello")
            assert channel.get_message(timeout=DEADLINE)["data"] == "hello"
        assert client.info()["redis_mode"] == "standalone"
        assert client.info("commandstats")["cmdstat_xadd"]["calls"] >= 1
        assert client.config_get("maxclients") == {"maxclients": "10000"}
        assert client.config_set("timeout", 0)
        assert client.command_count() > 100
        assert client.client_list()[0]["db"] == "0"
        assert client.client_info()["lib-name"].startswith("redis-py")
        assert client.time()[0] > 1_600_000_000


def test_a_blocked_reader_and_a_producer_on_one_loop(ours: Running) -> None:
    """A blocked reader gets the entry that a producer on the same event loop adds."""

    async def run() -> object:
        async with redis.asyncio.Redis(port=ours.port, decode_responses=True) as client:
            await client.flushall()
            reading = asyncio.create_task(client.xread({"s": "0"}, block=int(DEADLINE * 1000)))
            async with asyncio.timeout(DEADLINE):
                while (await client.info("clients"))["blocked_clients"] == 0:
                    await asyncio.sleep(0.001)
            await client.xadd("s", {"f": "v"}, id="7-7")
            return await reading

    assert asyncio.run(run()) == [["s", [("7-7", {"f": "v"})]]]


@pytest.mark.redis
def test_the_installed_server_is_at_least_debian_s() -> None:
    """The installed redis-server, with which the scenes are compared, is at least 7.0."""
    needed("redis-server")
    assert servers.redis_release().since("7.0")
