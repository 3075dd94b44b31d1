"""`metrics`: the exporter as a verb."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
import redis

from pystreams.commands import metrics
from tests import ROOT, servers
from tests.pystreams.conftest import Cli
from tests.pystreams.metrics.exposed import parsed, value


def test_the_metrics_of_now(cli_of: Cli, client: redis.Redis) -> None:
    """As Prometheus reads them, or a line of JSON for each sample."""
    client.xadd("orders", {"n": 1})
    client.xadd("other", {"n": 1})
    found = parsed(cli_of("metrics", "--once", "--streams", "orders").encode())
    assert value(found, "redis_stream_length", db="db0", stream="orders") == 1
    assert value(found, "redis_stream_length", db="db0", stream="other") is None
    lines = [json.loads(line) for line in cli_of("metrics", "--once", "--json").splitlines()]
    assert {"name": "redis_stream_length", "labels": {"db": "db0", "stream": "other"}, "value": 1} in lines


def test_a_missing_package_is_named(cli_of: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setattr(metrics, "find_spec", lambda _: None)
    said = cli_of.failure("metrics", "--once", status=1)
    assert "[PACKAGE_MISSING]" in said
    assert "pip install 'pystreams[metrics]'" in said


@pytest.mark.parametrize("place", ["engine"], indirect=True)
def test_it_serves_until_it_is_stopped(place: servers.Running) -> None:
    """On the loopback interface; it says where."""
    command = [sys.executable, "-m", "pystreams", "metrics", "--port", "0", "--url", place.url]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline().decode().split()
            assert said[:2] == ["metrics", "at"]
            assert said[2].startswith("http://127.0.0.1:")
            with urllib.request.urlopen(said[2]) as answer:
                assert value(parsed(answer.read()), "redis_up") == 1
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            servers.stop(process)
