"""The command as a process: standard streams that are closed, questions that are interrupted, its exit statuses."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
import redis

from pystreams.commands import verbs
from tests import ROOT, servers
from tests.pystreams.conftest import Cli


@pytest.mark.parametrize(("words", "closed", "status"), [("ls", 1, 0), ("trim s --maxlen 0", 0, 2)])
def test_standard_streams_may_be_closed(
    engine_client: redis.Redis, engine_process: servers.Running, words: str, closed: int, status: int
) -> None:
    """As cron and daemons do it: a command does its work without output, and without input it asks nobody."""
    engine_client.xadd("s", {"n": 1})
    command = [sys.executable, "-m", "pystreams", "--url", engine_process.url, *words.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    close = functools.partial(os.close, closed)
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, preexec_fn=close) as process:  # noqa: PLW1509 - it only closes
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
        assert process.wait() == status


def test_a_question_that_is_interrupted_changes_nothing(
    cli_of: Cli, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C where somebody is asked ends with the status of Ctrl-C."""

    def interrupted(text: str, *, err: bool) -> bool:
        raise click.Abort

    client.xadd("s", {"n": 1})
    monkeypatch.setattr(verbs, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(click, "confirm", interrupted)
    assert cli_of.result("trim", "s", "--maxlen", "0").exit_code == 130
    assert client.xlen("s") == 1


def test_an_option_of_another_connector_is_a_wrong_command_line(cli_of: Cli) -> None:
    """It has the status of one."""
    assert "FOREIGN_OPTION" in cli_of.failure("ls", "--option", "port=6379", status=2)
