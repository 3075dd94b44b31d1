"""Owner of an embedded engine: the driver of a process, and programs that must not start an engine."""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from spark_streams.embedded import drivers
from spark_streams.embedded.drivers import Process
from spark_streams.errors import EmbeddedError, OptionsError
from spark_streams.source import PystreamsDataSource
from streamclient.config.address import Address

SPARKS = re.compile("|".join(drivers.SET_BY_SPARK))


def test_another_drivers_engine_is_out_of_reach() -> None:
    """The address of an engine is rejected on another machine and under another driver."""
    process = Process.of(os.getpid())
    drivers.check_reach(Address("redis://127.0.0.1:1"))
    drivers.check_reach(Address("redis://127.0.0.1:1", f"{socket.gethostname()}/{process}"))
    for driver in (f"elsewhere/{process}", f"{socket.gethostname()}/{process.pid}-1", f"{socket.gethostname()}/"):
        with pytest.raises(EmbeddedError, match=r"EMBEDDED_OUT_OF_REACH.*set the option 'url'"):
            drivers.check_reach(Address("redis://127.0.0.1:1", driver))


def test_the_first_process_of_a_container_may_be_the_driver() -> None:
    """The ancestors of a process include process 1, which is Spark's JVM in some containers."""
    assert [each.pid for each in drivers.ancestors()][-1] == 1


def test_the_driver_is_the_jvm_that_started_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of a process that Spark started is its parent JVM; a user's program is its own driver, even if an
    editor's JVM started it.
    """
    me, parent = Process.of(os.getpid()), Process.of(os.getppid())
    monkeypatch.setattr(drivers, "is_java", lambda pid: pid == parent.pid)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    for name in [name for name in os.environ if name.startswith(drivers.SET_BY_SPARK)]:
        monkeypatch.delenv(name)
    assert drivers.find_process() == me
    for name in ("PYTHON_WORKER_FACTORY_SECRET", "PYSPARK_GATEWAY_PORT"):
        with monkeypatch.context() as patched:
            patched.setenv(name, "1")
            assert drivers.find_process() == parent


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["/opt/jdk/bin/java", "--master", "yarn", "x"], "yarn"),
        (["/opt/jdk/bin/java", "--conf", "spark.master=spark://h:1", "x"], "spark://h:1"),
        (["/opt/jdk/bin/java", "--master", "local-cluster[2,1,1024]", "x"], None),
        (["/opt/jdk/bin/java", "--properties-file", "cluster.conf", "x"], "k8s://https://h:6443"),
        (["/opt/jdk/bin/java", "--properties-file", "cluster.conf", "--master", "local[2]", "x"], None),
        (["/opt/jdk/bin/java", "x"], "yarn"),
    ],
)
def test_a_master_that_is_not_local_needs_a_url(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], refused: str | None
) -> None:
    """If the JVM's master is not local, a missing url is an error that names it, also if it is Spark's default."""
    (tmp_path / "spark-defaults.conf").write_text("# cluster\nspark.master    yarn\n")
    (tmp_path / "cluster.conf").write_text("spark.app.name=a\nspark.master=k8s\\://https\\://h\\:6443\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(drivers, "command_line", lambda _pid: words)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    jvm = Process.of(os.getpid())
    if refused is None:
        drivers.check_master(jvm)
    else:
        with pytest.raises(OptionsError, match=f"MISSING_URL.*'{refused}'.*'url'.*PYSTREAMS_URL.*local master"):
            drivers.check_master(jvm)


@pytest.mark.parametrize(
    ("word", "refused"),
    [
        ("/opt/spark/python/pyspark/pipelines/cli.py", "a declarative pipeline"),
        ("org.apache.spark.sql.connect.service.SparkConnectServer", "a Spark Connect server"),
        ("/home/me/app.py", ""),
    ],
)
def test_a_service_needs_a_server_or_a_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str, refused: str
) -> None:
    """Pipelines and Connect servers cannot use an engine in memory; the error names three remedies."""
    me = Process.of(os.getpid())
    monkeypatch.setattr(drivers, "command_line", lambda _pid: ["/opt/jdk/bin/java", "SparkSubmit", word, "run"])
    monkeypatch.setattr(drivers, "find_process", lambda: me)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    # Without and with an engine's directory inherited from a parent process.
    for inherited in (None, str(tmp_path / str(me))):
        if inherited is None:
            monkeypatch.delenv(drivers.VARIABLE, raising=False)
        else:
            monkeypatch.setenv(drivers.VARIABLE, inherited)
        remedies = f"EMBEDDED_NOT_KEPT.*{refused}.*'url'.*PYSTREAMS_URL.*'embedded.dir'"
        with pytest.raises(OptionsError, match=remedies) if refused else nullcontext():
            assert drivers.find()[0] == me
        assert drivers.find(persistent=True)[0] == me


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
    """A Spark Connect client cannot start an engine, because the server's queries could not read its data."""
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", *filter(SPARKS.match, os.environ)):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OptionsError, match=r"CONNECT_CLIENT.*'url'") if refused else nullcontext():
        drivers.check_client(drivers.find_process())
    drivers.check_client(Process.of(os.getppid()))


def test_the_schema_of_a_service_without_a_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """`schema()` already rejects a service without a url and a data directory, so a pipeline's dry run fails."""
    monkeypatch.delenv("PYSTREAMS_URL", raising=False)
    monkeypatch.setattr(drivers, "spark_service", lambda: "a declarative pipeline")
    with pytest.raises(OptionsError, match=r"\[EMBEDDED_NOT_KEPT\] No server is named, and a declarative pipeline"):
        PystreamsDataSource({"stream": "s"}).schema()
    for options in ({"url": "redis://h"}, {"embedded.dir": "/data"}):
        assert PystreamsDataSource({"stream": "s", **options}).schema()
