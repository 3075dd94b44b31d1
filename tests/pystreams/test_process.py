"""The command as a process: closed standard streams, interrupted prompts, and exit statuses."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
import redis
from click.testing import CliRunner

from pystreams.commands import verbs as of_verbs
from pystreams.commands.root import cli
from tests import ROOT, servers
from tests.pystreams.conftest import Cli, verbs


@pytest.mark.parametrize(("words", "closed", "status"), [("ls", 1, 0), ("trim s --maxlen 0", 0, 2)])
def test_standard_streams_may_be_closed(
    engine_client: redis.Redis, engine_process: servers.Running, words: str, closed: int, status: int
) -> None:
    """The command works without an output, as in cron, and without an input it does not prompt."""
    engine_client.xadd("s", {"n": 1})
    command = [sys.executable, "-m", "pystreams", "--url", engine_process.url, *words.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    close = functools.partial(os.close, closed)
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, preexec_fn=close) as process:  # noqa: PLW1509 - it only closes
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
        assert process.wait() == status


def test_an_interrupted_prompt_changes_nothing(
    cli_of: Cli, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at a prompt exits with 130 and changes nothing."""

    def interrupted(text: str, *, err: bool) -> bool:
        raise click.Abort

    client.xadd("s", {"n": 1})
    monkeypatch.setattr(of_verbs, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(click, "confirm", interrupted)
    assert cli_of.result("trim", "s", "--maxlen", "0").exit_code == 130
    assert client.xlen("s") == 1


def test_an_option_of_another_connector_is_a_usage_error(cli_of: Cli) -> None:
    """An option of another connector exits with the status of a wrong command line."""
    assert "FOREIGN_OPTION" in cli_of.failure("ls", "--option", "port=6379", status=2)


def _every_verb() -> list[list[str]]:
    """Return the words of each verb."""
    found = []
    for name, command in verbs().items():
        inner = command.commands if isinstance(command, click.Group) else {"": command}
        found += [[word for word in (name, each) if word] for each in inner]
    return found


@pytest.mark.parametrize("words", _every_verb(), ids=" ".join)
def test_the_help_of_each_verb_keeps_its_layout(words: list[str]) -> None:
    r"""Tables and examples in help texts keep their lines, and no `\b` is shown."""
    text = CliRunner().invoke(cli, [*words, "--help"]).output
    assert "\\b" not in text
    assert "\b" not in text
    if words == ["serve"]:
        assert "\n    pystreams serve --port 7000 --maxmemory 2gb\n" in text
    if words == ["groups", "lag"]:
        assert "\n    rewind   the position moved back (--watch)\n" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ls --json --nonsense", "No such option"),
        ("--json nonsense", "No such command 'nonsense'"),
        ("groups seek s g --json", "Give one of --to and --from-file."),
        ("tail s --limit many --json", "'many' is not a valid integer"),
    ],
)
def test_a_usage_error_is_json_with_the_json_flag(line: str, message: str) -> None:
    """With `--json`, a wrong command line is one JSON document on standard error, with the usual status."""
    result = CliRunner().invoke(cli, line.split())
    found = json.loads(result.stderr)["error"]
    assert (result.exit_code, result.stdout, found["id"]) == (2, "", "USAGE")
    assert message in found["message"]


def test_statuses_are_the_same_with_json(cli_of: Cli, client: redis.Redis) -> None:
    """With `--json`, a failed check, a missing stream and successful commands have their usual exit statuses."""
    client.xadd("s", {"n": 1})
    client.xgroup_create("s", "g", 0)
    lines = ("groups lag s --fail-above 0", "info nope", "ls", "--version")
    assert [cli_of.result(*line.split(), "--json").exit_code for line in lines] == [3, 4, 0, 0]


def test_a_shell_completes_verbs() -> None:
    """Click's completion finds verbs, whose modules are imported late."""
    words = {"_PYSTREAMS_COMPLETE": "bash_complete", "COMP_WORDS": "pystreams groups see", "COMP_CWORD": "2"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **words}
    command = [sys.executable, "-m", "pystreams"]
    assert subprocess.run(command, env=environment, capture_output=True, check=True).stdout == b"plain,seek\n"
