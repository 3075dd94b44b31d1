"""Shell completion: the suggested words, and the results in real shells."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from click.shell_completion import get_completion_class

from pystreams.commands.root import cli
from tests import ROOT, servers
from tests.pystreams.conftest import Cli
from tests.suite.tools import needed

_ENGINE = pytest.mark.parametrize("instance", ["engine"], indirect=True)


def test_a_shell_completes_names(
    cli_of: Cli, client: redis.Redis, instance: servers.Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of a stream are suggested from the server named on the line; nothing is suggested if it is unreachable."""
    for name in ("orders", "orders*", "other"):
        client.xadd(name, {"f": 1})
    for group in ("billing", "b:2", "audit", b"b\xff", b"b\n"):
        client.xgroup_create("orders", group, 0)
    monkeypatch.setenv("PYSTREAMS_URL", "redis://127.0.0.1:1")
    of_zsh = get_completion_class("zsh")
    assert of_zsh is not None
    completion = of_zsh(cli, {}, "pystreams", "_PYSTREAMS_COMPLETE")

    def completed(*words: str) -> list[str]:
        return sorted(item.value for item in completion.get_completions(list(words[:-1]), words[-1]))

    assert completed("tail", "--url", instance.url, "ord") == ["orders", "orders*"]
    assert completed("info", "--url", instance.url, "orders*") == ["orders*"]
    assert completed("info", "--option", "retryTimeoutMs=0", "ord") == []
    assert completed("gro") == ["groups"]
    at = ("--url", instance.url)
    assert completed("groups", "describe", *at, "orders", "b") == ["b:2", "billing"]
    assert completed("consume", *at, "orders", "-g", "a") == ["audit"]
    assert completed("groups", "seek", *at, "orders", "audit", "bi") == ["billing"]
    assert completed("groups", "describe", *at, "nowhere", "b") == []
    assert completed("consume", *at, "-g", "b") == []


@pytest.fixture
def shell(client: redis.Redis, instance: servers.Running, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that has the command, with a server whose streams have unusual names."""
    for name in ("sensors:{0}", "sensors:one", "other", "a,b", "odd name; $(reboot)", "odd\n\x1b[2J"):
        client.xadd(name, {"f": 1})
    (folder := tmp_path / "bin").mkdir()
    program = folder / "pystreams"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pystreams "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSTREAMS_URL": "redis://127.0.0.1:1", "HOME": str(tmp_path)}
    return {**environment, "PATH": f"{folder}:{environment['PATH']}", "TERM": "dumb"}


@_ENGINE
def test_bash_completes_names_with_colons_and_spaces(shell: dict[str, str], instance: servers.Running) -> None:
    """Bash completes names with colons, at which it splits words, and neither executes names nor prints their control
    characters.
    """
    server = f"pystreams --url {instance.url}"
    lines = [f"{server} tail sensors:", f"{server} info odd", f"{server} info sens"]
    script = 'eval "$(_PYSTREAMS_COMPLETE=bash_source pystreams)"\n' + "".join(
        f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; _pystreams_completion pystreams; "
        'printf "%s|" "${COMPREPLY[@]}"; echo\n'
        for line in lines
    )
    done = subprocess.run([needed("bash"), "-c", script], env=shell, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found = [sorted(filter(None, line.split("|"))) for line in done.stdout.splitlines()]
    assert found == [
        ["\\{0\\}", "one"],
        ["odd\\ name\\;\\ \\$\\(reboot\\)"],
        ["sensors:\\{0\\}", "sensors:one"],
    ]
