"""The test kit: its fixtures and helpers. The guide's tests use it with Spark."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib

import pytest
import redis

from pystreams.testing import FaultProxy, Server, add, engine, entries, wait_until
from pystreams.testing.servers import VARIABLE
from spark_streams.embedded import launcher
from tests import ROOT


def test_entries_are_added_and_found(pystreams_engine: Server) -> None:
    """Added rows become entries, None is left out, and entries read back equal dictionaries."""
    ids = add(pystreams_engine, "s", {"n": 1, "b": True, "x": None}, {"n": 2.5})
    found = entries(pystreams_engine, "s")
    assert found == [{"n": "1", "b": "true"}, {"n": "2.5"}]
    assert [each.id for each in found] == ids
    assert entries(pystreams_engine, "nonesuch") == []


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_an_empty_engine(pystreams_engine: Server, turn: int) -> None:
    assert entries(pystreams_engine, "s") == []
    add(pystreams_engine, "s", {"turn": turn})


@pytest.mark.redis
def test_the_clock_of_a_real_redis_cannot_be_moved(pystreams_redis: Server) -> None:
    """The helpers work with a real Redis, except that its clock cannot be moved."""
    add(pystreams_redis, "s", {"n": 1})
    assert entries(pystreams_redis, "s") == [{"n": "1"}]
    with pytest.raises(TypeError, match="cannot be moved"):
        pystreams_redis.clock.advance(1)


def test_the_clock_moves_idle_times_expiry_and_retention(pystreams_engine: Server) -> None:
    """Moving the clock by an hour changes idle times, expires keys and advances IDs without a wait."""
    client, began = pystreams_engine.client, time.monotonic()
    (first,) = add(pystreams_engine, "s", {"n": 1})
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "lost", {"s": ">"})
    client.set("k", "v", ex=3000)
    assert client.xautoclaim("s", "g", "next", min_idle_time=3_600_000)[1] == []
    pystreams_engine.clock.advance(3600)
    (claimed,) = client.xautoclaim("s", "g", "next", min_idle_time=3_600_000)[1]
    assert claimed == (first, {"n": "1"})
    assert client.get("k") is None
    (second,) = add(pystreams_engine, "s", {"n": 2})
    passed = int(second.partition("-")[0]) - int(first.partition("-")[0])
    assert 3_600_000 <= passed < 3_600_000 + 1000 * (time.monotonic() - began) + 1000
    assert client.xtrim("s", minid=int(second.partition("-")[0]) - 1_800_000, approximate=False) == 1
    with pytest.raises(ValueError, match="cannot go back"):
        pystreams_engine.clock.advance(-1)


def test_a_proxy_delays_cuts_and_refuses(pystreams_engine: Server, pystreams_proxy: FaultProxy) -> None:
    """The proxy's faults start and end on request and do not change the server's data."""
    with redis.Redis.from_url(pystreams_proxy.url, retry=None, protocol=2) as client:
        client.xadd("s", {"n": 1})
        pystreams_proxy.delay = 0.05
        began = time.monotonic()
        client.ping()
        assert time.monotonic() - began >= 0.1  # the delay applies in both directions
        pystreams_proxy.delay = 0.0
        pystreams_proxy.cut_after(20)
        with pytest.raises(redis.ConnectionError):
            client.xadd("s", {"n": 2})
        pystreams_proxy.refuses = True
        with pytest.raises(redis.ConnectionError):
            client.ping()
        pystreams_proxy.refuses = False
        assert client.xlen("s") == 1
    assert entries(pystreams_engine, "s") == [{"n": "1"}]


def test_engines_can_be_started_without_pytest() -> None:
    """Without pytest, `engine` starts a server whose process ends with the block."""
    with engine("--maxmemory", "100mb", movable=True) as running, redis.Redis.from_url(running.url) as client:
        assert client.config_get("maxmemory")["maxmemory"] == "104857600"
        before = client.time()[0]
        assert running.clock is not None
        running.clock.advance(1000)
        wait_until(lambda: client.time()[0] >= before + 1000, "the server's clock to move", 5)
        process = running.process
    assert process.poll() is not None


def test_the_plugin_imports_nothing_else() -> None:
    """Loading the plugin imports no other module of ours and no package."""
    program = """
import sys
import pytest
before = set(sys.modules)
import pystreams.testing.plugin
print(*sorted(set(sys.modules) - before))
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["pystreams", "pystreams.testing", "pystreams.testing.plugin"]
    assert f'"{launcher.NOTICES}", "off"' in (ROOT / "pystreams" / "testing" / "plugin.py").read_text()
    assert f'"{VARIABLE}"' in (ROOT / "engine" / "shell" / "clock.py").read_text()
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert entry == {"pystreams.testing.plugin": "pystreams.testing.plugin"}
