"""Whose engine it is: the driver of a process, and programs that must not have one of their own."""

from __future__ import annotations

import os
import re
import socket
import sys
from contextlib import nullcontext

import pytest

from spark_streams.embedded import drivers, launcher, processes
from spark_streams.embedded.processes import Process
from spark_streams.errors import EmbeddedError, OptionsError
from streamclient.config.address import Address

SPARKS = re.compile("|".join(drivers.SET_BY_SPARK))


def test_another_drivers_engine_is_out_of_reach() -> None:
    """A task on another machine, or of another driver, does not take the address for its own."""
    mine = Process.of(os.getpid())
    launcher.check_reach(Address("redis://127.0.0.1:1"))
    launcher.check_reach(Address("redis://127.0.0.1:1", f"{socket.gethostname()}/{mine}"))
    for driver in (f"elsewhere/{mine}", f"{socket.gethostname()}/{mine.pid}-1", f"{socket.gethostname()}/"):
        with pytest.raises(EmbeddedError, match="set the option 'url'"):
            launcher.check_reach(Address("redis://127.0.0.1:1", driver))


def test_the_driver_is_the_jvm_that_started_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of Spark's belongs to the JVM above it; a user's program does not belong to the JVM of an editor."""
    me, parent = Process.of(os.getpid()), Process.of(os.getppid())
    monkeypatch.setattr(processes, "is_java", lambda pid: pid == parent.pid)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    for name in [name for name in os.environ if name.startswith(drivers.SET_BY_SPARK)]:
        monkeypatch.delenv(name)
    assert drivers.find_process() == me
    for name in ("PYTHON_WORKER_FACTORY_SECRET", "PYSPARK_GATEWAY_PORT"):
        with monkeypatch.context() as patched:
            patched.setenv(name, "1")
            assert drivers.find_process() == parent


@pytest.mark.parametrize(
    ("words", "master"),
    [
        (["/opt/jdk/bin/java", "--master", "yarn", "x"], "yarn"),
        (["/opt/jdk/bin/java", "--conf", "spark.master=spark://h:1", "x"], "spark://h:1"),
        (["/opt/jdk/bin/java", "x"], None),
    ],
)
def test_a_master_that_is_not_local_needs_a_url(
    monkeypatch: pytest.MonkeyPatch, words: list[str], master: str | None
) -> None:
    """On a cluster the missing url is an error that says so, before anything is started."""
    monkeypatch.setattr(processes, "_command", lambda _pid: words)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert processes.spark_master(1) == master
    if master is not None:
        with pytest.raises(OptionsError, match=f"MISSING_URL.*'{master}'.*url"):
            drivers.check_master(Process.of(os.getpid()))


@pytest.mark.parametrize(
    ("environment", "refused"),
    [
        ({}, False),
        ({"SPARK_REMOTE": "local[2]"}, False),
        ({"SPARK_REMOTE": "sc://localhost"}, True),
        ({"SPARK_CONNECT_MODE_ENABLED": "1"}, True),
    ],
)
def test_a_client_of_spark_connect_gets_no_engine_of_its_own(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], refused: bool
) -> None:
    """Its data would be in another engine than that of the server's queries: an error says to set `url`."""
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", *filter(SPARKS.match, os.environ)):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OptionsError, match=r"CONNECT_CLIENT.*'url'") if refused else nullcontext():
        drivers.check_client(drivers.find_process())
    drivers.check_client(Process.of(os.getppid()))
