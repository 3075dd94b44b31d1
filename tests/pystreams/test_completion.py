"""Shell completion: the suggested words, and the results in real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.shell_completion import get_completion_class

from pystreams.commands.root import cli
from tests import ROOT, servers
from tests.pystreams.conftest import Cli
from tests.suite.tools import needed
from tests.suite.waiting import DEADLINE

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
    assert completed("groups", "seek", *at, "orders", "audit", "--to-group", "bi") == ["billing"]
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


@_ENGINE
def test_fish_completes_names_with_commas_and_spaces(shell: dict[str, str], instance: servers.Running) -> None:
    """Fish gets complete names without control characters."""
    server = f"pystreams --url {instance.url}"
    lines = [f"{server} tail sensors:", f"{server} info odd", f"{server} info a"]
    script = "env _PYSTREAMS_COMPLETE=fish_source pystreams | source\n" + "".join(
        f"string join '|' : (complete -C {shlex.quote(line)})\n" for line in lines
    )
    command = [needed("fish"), "--no-config", "-c", script]
    done = subprocess.run(command, env=shell, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [":|sensors:one|sensors:{0}", ":|odd name; $(reboot)", ":|a,b"]


class _Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, *command: str, environment: dict[str, str]) -> None:
        ours, terminal = pty.openpty()
        self._process = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True
        )
        os.close(terminal)
        self._ours, self._read = ours, b""

    def send(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, pattern: bytes) -> str:
        """Wait until the output since the last call matches the pattern, and return the matched group."""
        end = time.monotonic() + DEADLINE
        while (found := re.search(pattern, self._read, re.DOTALL)) is None:
            if not select.select([self._ours], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"waited {DEADLINE:g} s for {pattern!r} in {self._read!r}")
            self._read += os.read(self._ours, 1 << 16)
        self._read = self._read[found.end() :]
        return found[1].decode()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


@pytest.fixture
def zsh(shell: dict[str, str]) -> Iterator[_Terminal]:
    """An interactive zsh in which Ctrl-X s prints the current line as <<...>> and clears it."""
    terminal = _Terminal(needed("zsh"), "-f", "-i", environment={**shell, "COLUMNS": "200"})
    try:
        terminal.send(
            "PS1=; autoload -U compinit; compinit -u -D; "
            'eval "$(_PYSTREAMS_COMPLETE=zsh_source pystreams)"; '
            'show() { print -r -- "<<$BUFFER>>"; BUFFER= }; zle -N show; bindkey "^Xs" show; print rea"dy"; : "(x)"\n'
        )
        terminal.until(rb"(ready)\r")
        yield terminal
    finally:
        terminal.close()


@_ENGINE
def test_zsh_completes_names_with_colons_and_spaces(zsh: _Terminal, instance: servers.Running) -> None:
    """Zsh inserts a unique completion, escaped, or the common prefix of several."""
    begin = f"pystreams --url {instance.url} info "

    def completed(begun: str) -> str:
        zsh.send(f"{begin}{begun}\t\x18s")
        return zsh.until(rb"<<(.*?)>>").removeprefix(begin)

    assert completed("odd") == "odd\\ name\\;\\ \\$\\(reboot\\) "
    assert completed("sensors:o") == "sensors:one "
    assert completed("sens") == "sensors:"
    assert completed("a") == "a,b "
