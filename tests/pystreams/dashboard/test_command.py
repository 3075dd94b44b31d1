"""`pystreams ui`: startup, shutdown and errors."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pystreams.commands import dashboard as verb
from tests import ROOT, servers
from tests.pystreams.conftest import Cli


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_the_dashboard_serves_until_sigterm(instance: servers.Running, tmp_path: Path) -> None:
    """The printed URL has the token after '#', SIGTERM ends the dashboard with status 0, and the output has no
    password.
    """
    url = instance.url.replace("redis://", "redis://default:hush-hush@")
    command = [sys.executable, "-m", "pystreams", "ui", "--url", url, "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"Dashboard of redis://\S+: (http://127\.0\.0\.1:\d+/)#token=\S{20,}\n", line)
            assert found is not None, line
            with urllib.request.urlopen(found[1]) as answer:
                assert b"<title>pystreams</title>" in answer.read()
            process.terminate()
            _, errors = process.communicate(timeout=20)
        finally:
            servers.stop(process)  # type: ignore[arg-type]
    assert (process.returncode, "hush" in line + errors) == (0, False)


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_errors_at_startup(cli_of: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An occupied port, a token that is too short, and missing packages are errors at startup."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "[PORT_UNUSABLE]" in cli_of.failure("ui", "--port", port, status=1)
    assert "16 characters" in cli_of.failure("ui", "--token", "short", status=2)
    monkeypatch.setattr(verb, "find_spec", lambda _: None)
    assert "pip install 'pystreams-spark[dashboard]'" in cli_of.failure("ui", status=1)


def test_an_unusable_state_directory_is_an_error(tmp_path: Path) -> None:
    """The dashboard does not start if its state directory cannot be created."""
    (tmp_path / "file").touch()
    cli = Cli("redis://127.0.0.1:1", tmp_path)
    error = cli.failure("ui", "--port", "0", "--state", str(tmp_path / "file" / "state"), status=1)
    assert error.startswith("error: [STATE_UNUSABLE]")
