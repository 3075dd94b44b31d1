"""`pystreams metrics`: the exporter on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
import redis

from tests import ROOT, servers
from tests.pystreams.conftest import Cli
from tests.pystreams.metrics.exposed import parsed, value


def test_metrics_are_printed_once(cli_of: Cli, client: redis.Redis) -> None:
    """`--once` prints the metrics in Prometheus format, or as a line of JSON per sample."""
    client.xadd("orders", {"n": 1})
    client.xadd("other", {"n": 1})
    found = parsed(cli_of("metrics", "--once", "--streams", "orders").encode())
    assert value(found, "redis_stream_length", db="db0", stream="orders") == 1
    assert value(found, "redis_stream_length", db="db0", stream="other") is None
    lines = [json.loads(line) for line in cli_of("metrics", "--once", "--json").splitlines()]
    assert {"name": "redis_stream_length", "labels": {"db": "db0", "stream": "other"}, "value": 1} in lines


def test_the_metrics_of_an_unreachable_server_are_a_failure(cli_of: Cli) -> None:
    """If the server is unreachable, `--once` prints `redis_up 0` and exits with 5."""
    result = cli_of.result("metrics", "--once", "--url", f"redis://127.0.0.1:{servers.free_port()}")
    assert (result.exit_code, value(parsed(result.stdout.encode()), "redis_up")) == (5, 0)
    assert "[SERVER_UNREACHABLE]" in result.stderr


def test_a_missing_package_is_named(cli_of: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a missing package says how to install it."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    error = cli_of.failure("metrics", "--once", status=1)
    assert "[PACKAGE_MISSING]" in error
    assert "pip install 'pystreams-spark[dashboard]'" in error


def test_an_occupied_port_is_an_error(cli_of: Cli, instance: servers.Running) -> None:
    """A port that another process listens on is an error."""
    assert "[PORT_UNUSABLE]" in cli_of.failure("metrics", "--port", str(instance.port), status=1)


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_the_exporter_serves_until_it_is_stopped(instance: servers.Running) -> None:
    """The exporter listens on the loopback interface, prints its address, and stops on SIGINT."""
    command = [sys.executable, "-m", "pystreams", "metrics", "--port", "0", "--url", instance.url]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            words = process.stderr.readline().decode().split()
            assert words[:2] == ["metrics", "at"]
            assert words[2].startswith("http://127.0.0.1:")
            with urllib.request.urlopen(words[2]) as answer:
                assert value(parsed(answer.read()), "redis_up") == 1
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            servers.stop(process)
