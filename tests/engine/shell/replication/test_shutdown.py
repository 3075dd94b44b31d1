"""Shutdown of a master: replicas get the rest of its stream."""

from __future__ import annotations

import os
import signal

import pytest

from tests.servers.connection import Connection
from tests.servers.sentinels import family
from tests.suite.waiting import wait_for


@pytest.mark.redis
@pytest.mark.parametrize("how", ["SHUTDOWN", "SIGTERM"])
def test_a_lagging_replica_gets_the_rest_of_the_stream(how):
    """A master that ends has sent all acknowledged writes, also to a replica that does not read at that moment."""
    with family("engine", "engine") as (master, replica):
        assert master.process is not None
        assert replica.process is not None
        os.kill(replica.process.pid, signal.SIGSTOP)
        try:
            with Connection(master) as client:
                for number in range(100):
                    assert client.run("SET", "k", f"{number}" + "x" * 1000) == b"OK"
                if how == "SHUTDOWN":
                    client.send("SHUTDOWN", "NOSAVE")
                else:
                    master.process.send_signal(signal.SIGTERM)
                wait_for(lambda: master.process.poll() is not None, "the master to exit")
        finally:
            os.kill(replica.process.pid, signal.SIGCONT)
        wait_for(lambda: replica.run("GET", "k") == b"99" + b"x" * 1000, "the rest of the stream")
