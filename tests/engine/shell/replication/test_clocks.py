"""Servers with different clocks: replicas that are an hour behind or ahead of their master."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.servers.sentinels import Member
from tests.suite.waiting import wait_for

HOUR = 3600


@pytest.fixture
def late(tmp_path):
    """Yield an engine whose clock is an hour behind."""
    member = Member("engine", tmp_path / "late", behind=HOUR)
    member.launch()
    yield member
    member.stop()


@pytest.mark.redis
def test_a_replica_with_a_clock_an_hour_behind(late, servers):
    """Deadlines are the same moments on both servers, and keys expire when the master deletes them.

    As a master, the late server generates IDs above the existing ones, and no delivery time is in its future, so no
    idle time is negative.
    """
    master = servers["engine"]
    late.wait()
    master.run("REPLICAOF", "NO", "ONE")
    with closing(master.client()) as client:
        client.flushall()
        seconds, _ = late.run("TIME")
        assert abs(client.time()[0] - seconds - HOUR) < 60
        late.run("REPLICAOF", "127.0.0.1", master.port)
        wait_for(lambda: late.follows(master), "the replica to follow")
        last = client.xadd("s", {"f": "v"})
        client.xgroup_create("s", "g", "0")
        client.xreadgroup("g", "c", {"s": ">"})
        client.set("later", "v", ex=1000)
        client.set("soon", "v", px=1)
        wait_for(lambda: client.dbsize() == 2, "the key to expire")
        wait_for(lambda: late.has_all_of(master), "the replica to have everything")
        assert late.run("PEXPIRETIME", "later") == client.pexpiretime("later")
        assert late.run("DBSIZE") == 2
        client.execute_command("FAILOVER", "TO", "127.0.0.1", late.port)
        wait_for(lambda: master.follows(late), "the failover")
        with closing(late.client()) as other:
            milliseconds, _, number = other.xadd("s", {"f": "v"}).partition(b"-")
            assert (milliseconds, int(number)) == (last.partition(b"-")[0], int(last.partition(b"-")[2]) + 1)
            (pending,) = other.xpending_range("s", "g", "-", "+", 10)
            assert 0 <= pending["time_since_delivered"] < 60_000
            assert 0 <= other.xinfo_consumers("s", "g")[0]["idle"] < 60_000
            assert other.xclaim("s", "g", "d", 60_000, [last]) == []
            assert len(other.xclaim("s", "g", "d", 0, [last])) == 1
