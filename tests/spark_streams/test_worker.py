"""Spark's worker processes: frozen modules for the garbage collector, the socket, and the format of log lines."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import socket
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from spark_streams import worker
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.read.batch import BatchReader
from spark_streams.read.stream import StreamCalls
from spark_streams.source import PystreamsDataSource
from spark_streams.write.sink import BatchWriter, StreamWriter

#: The main module of a worker.
DAEMON: Any = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))


@pytest.fixture
def in_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process looks like a Spark worker."""
    monkeypatch.setitem(sys.modules, "__main__", DAEMON)
    monkeypatch.setattr(gc, "freeze", lambda: None)


def test_modules_are_frozen_only_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded modules are frozen in a Spark worker only, and again after more modules were loaded.

    Creating the data source freezes them too, because each planning process does that.
    """
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(sys.modules)))
    monkeypatch.setattr(worker, "excluded", 0)
    worker.prepare()
    assert not frozen
    monkeypatch.setitem(sys.modules, "__main__", DAEMON)
    worker.prepare()
    worker.prepare()
    assert len(frozen) == 1
    monkeypatch.setitem(sys.modules, "loaded_later", ModuleType("loaded_later"))
    worker.prepare()
    assert frozen[1] == frozen[0] + 1
    monkeypatch.setattr(worker, "excluded", 0)
    PystreamsDataSource({})
    assert len(frozen) == 3


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux acknowledges on request")
@pytest.mark.usefixtures("in_worker")
@pytest.mark.parametrize("kind", [BatchReader, StreamCalls, BatchWriter, StreamWriter])
def test_a_task_acknowledges_its_command(kind: type) -> None:
    """When a task's reader or writer is unpickled, the received bytes are acknowledged, so Spark sends the input."""

    def acknowledges_at_once(link: socket.socket) -> int:
        return link.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)

    made = kind.__new__(kind)
    made.__dict__.update(_schema=ReadSchema.of(StructType()), _sink=None)
    copy = pickle.dumps(made)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as spark,
        server.accept()[0] as link,
    ):
        while acknowledges_at_once(link):  # Linux delays acknowledgements after some replies
            spark.sendall(b"command")
            link.sendall(link.recv(7))
            spark.recv(7)
        pickle.loads(copy)
        assert acknowledges_at_once(link)


@pytest.mark.usefixtures("in_worker")
def test_sockets_stay_blocking_with_a_default_timeout() -> None:
    """Spark's socket stays blocking if a function that ran in the worker has set a default timeout for sockets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.setdefaulttimeout(30)
        try:
            worker.prepare()
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(server.fileno())


def test_warnings_of_a_worker_have_level_and_time() -> None:
    """A worker's warning has a time and a level like Spark's lines, unless logging is configured."""
    program = """
import logging, sys
from types import SimpleNamespace
from spark_streams import worker
sys.modules["__main__"].__spec__ = SimpleNamespace(name="pyspark.daemon")
if sys.argv[1] == "true":
    logging.basicConfig(format="mine %(message)s")
worker.prepare()
worker.prepare()
logging.getLogger("spark_streams").warning("%s rows", 3)
"""
    for configured, expected in (
        (False, r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARNING spark_streams: 3 rows\n"),
        (True, r"mine 3 rows\n"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(configured)], capture_output=True, text=True, check=True
        )
        assert re.fullmatch(expected, done.stderr), done.stderr
