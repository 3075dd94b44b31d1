"""redis-cli, redis-benchmark and redis-py work against the engine as they do against Redis."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

from tests import servers
from tests.servers import Running
from tests.tools import needed
from tests.waiting import DEADLINE


@pytest.fixture(scope="module")
def engine() -> Iterator[Running]:
    with servers.engine() as running:
        yield running


def tool(name: str, engine: Running, *arguments: str, stdin: bytes = b"") -> str:
    """The output of one of Redis's tools."""
    done = subprocess.run(
        [needed(name), "-p", str(engine.port), *arguments],
        input=stdin,
        capture_output=True,
        timeout=DEADLINE,
        check=True,
    )
    return (done.stdout + done.stderr).decode()


@pytest.mark.redis
def test_redis_cli(engine: Running) -> None:
    """Commands as arguments, in RESP3, from stdin, in bulk, and help that comes from COMMAND DOCS."""
    assert tool("redis-cli", engine, "xadd", "cli", "1-1", "f", "v") == "1-1\n"
    assert tool("redis-cli", engine, "-3", "--json", "xrange", "cli", "-", "+") == '[["1-1",["f","v"]]]\n'
    assert tool("redis-cli", engine, stdin=b"select 3\nset a 'b c'\nget a\n") == "OK\nOK\nb c\n"
    assert "replies: 1000" in tool("redis-cli", engine, "--pipe", stdin=b"INCR n\r\n" * 1000)
    assert "key [COUNT count]" not in tool("redis-cli", engine, "help", "xadd")
    assert "GROUP group consumer [COUNT count]" in tool("redis-cli", engine, "help", "xreadgroup")
    assert tool("redis-cli", engine, "-n", "3", "--scan") == "a\n"


@pytest.mark.redis
def test_redis_benchmark(engine: Running) -> None:
    """It finds its settings by CONFIG GET, and every reply is read."""
    said = tool("redis-benchmark", engine, "-n", "2000", "-P", "16", "-q", "XADD", "bench", "*", "f", "v")
    assert "requests per second" in said
    assert tool("redis-cli", engine, "xlen", "bench") == "2000\n"


@pytest.mark.parametrize("proto", [2, 3])
def test_redis_py(engine: Running, proto: int) -> None:
    """Streams, groups, transactions, channels and server commands through redis-py, in both protocols."""
    with redis.Redis(port=engine.port, protocol=proto, decode_responses=True, client_name="tester") as client:
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


def test_redis_py_async(engine: Running) -> None:
    """A blocked reader and a producer on one event loop."""

    async def run() -> object:
        async with redis.asyncio.Redis(port=engine.port, decode_responses=True) as client:
            await client.flushall()
            reading = asyncio.create_task(client.xread({"s": "0"}, block=int(DEADLINE * 1000)))
            while (await client.info("clients"))["blocked_clients"] == 0:
                await asyncio.sleep(0.001)
            await client.xadd("s", {"f": "v"}, id="7-7")
            return await reading

    assert asyncio.run(run()) == [["s", [("7-7", {"f": "v"})]]]
