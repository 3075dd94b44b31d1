"""Spark Connect: clients of a real Spark Connect server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import ROOT, servers
from tests.spark.connect_client import PATIENCE, assert_all_works, run_client
from tests.suite.jvm import spark_home
from tests.suite.waiting import wait_for


def _listens(port: int) -> bool:
    """Return whether the port accepts connections. (The server's log depends on SPARK_CONF_DIR.)"""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


@pytest.fixture
def connect_server() -> Iterator[str]:
    """Start a Spark Connect server as a process on a free port, and yield its address."""
    port = servers.free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
    }
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with tempfile.TemporaryDirectory(prefix="ps-connect-", ignore_cleanup_errors=True) as directory:
        output = Path(directory, "output.txt")
        with output.open("wb") as sink:
            process = subprocess.Popen(
                servers.tied_to_us(
                    [str(spark_home() / "bin/spark-submit"), "--master", "local[2]", *confs, "--class", name, "x"]
                ),
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        try:
            wait_for(
                lambda: process.poll() is not None or _listens(port),
                "the Connect server",
                PATIENCE,
            )
            assert process.poll() is None, output.read_text()
            yield f"sc://127.0.0.1:{port}"
        finally:
            servers.stop(process)


def test_a_client_of_a_connect_server(connect_server: str, redis_process: servers.Running, tmp_path: Path) -> None:
    """A client runs batches, queries and foreachBatch, gets the connector's errors, and exits by itself despite a
    listener.

    It gets no embedded engine: the driver is the server, where an engine in memory is rejected.
    """
    found = run_client(connect_server, redis_process.url + "/5", tmp_path)
    assert_all_works(found)
    assert found["embedded"] == "CONNECT_CLIENT"
    assert "[EMBEDDED_NOT_KEPT] No server is named, and a Spark Connect server cannot use" in found["refused"]
