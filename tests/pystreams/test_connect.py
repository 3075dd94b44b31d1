"""Which server is meant, what is said when it cannot be used, and that no secret is shown."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from click.shell_completion import ShellComplete

from pystreams.commands.root import cli
from tests import ROOT, servers, topologies
from tests.pystreams.conftest import Cli
from tests.tools import needed


def _profiles(home: Path, text: str) -> None:
    file = home / "pystreams" / "profiles.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


def test_the_server_comes_from_url_profile_or_environment(
    cli_of: Cli, client: redis.Redis, place: servers.Running, tmp_path: Path
) -> None:
    """--url wins over --profile, that over the environment, that over the default profile."""
    client.xadd("s", {"f": 1})
    nowhere = "redis://127.0.0.1:1"
    _profiles(tmp_path, f'default = "here"\n[here]\nurl = "{place.url}"\n[no]\nurl = "{nowhere}"\nretryTimeoutMs = 0\n')
    for words, environment in [
        (("--url", place.url, "ls"), {"PYSTREAMS_URL": nowhere}),
        (("ls", "--profile", "here"), {"PYSTREAMS_URL": nowhere}),
        (("ls",), {"PYSTREAMS_URL": place.url, "PYSTREAMS_PROFILE": "no"}),
        (("ls",), {"PYSTREAMS_URL": None, "PYSTREAMS_PROFILE": "here"}),
        (("ls",), {"PYSTREAMS_URL": None}),
    ]:
        result = cli_of.result(*words, "--json", **environment)
        assert (result.exit_code, len(json.loads(result.stdout)["streams"])) == (0, 1)
    result = cli_of.result("ls", "--profile", "no", PYSTREAMS_URL=place.url)
    assert (result.exit_code, "[SERVER_UNREACHABLE]" in result.stderr) == (5, True)


def test_profiles_that_cannot_be_used_are_named(cli_of: Cli, tmp_path: Path) -> None:
    """A missing one with those that exist, a broken file with the line, an unknown option with the nearest name."""
    _profiles(tmp_path, '[a]\nurl = "redis://h"\n[b]\nurll = "x"\npassword = "hush"\n')
    assert "[NO_PROFILE] There is no profile 'c'" in cli_of.failure("ls", "--profile", "c", status=4)
    said = cli_of.failure("ls", "--profile", "b", status=2)
    assert ("nearest known name is 'url'" in said, "hush" in said) == (True, False)
    _profiles(tmp_path, "[a\n")
    assert "[PROFILES_MALFORMED]" in cli_of.failure("ls", "--profile", "a", status=2)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--url", "nonsense"), 2, "it names no scheme"),
        (("--url", "http://h"), 2, "its scheme must be one of"),
        (("--url", "redis://127.0.0.1:1", "--option", "retryTimeoutMs=0"), 5, "[SERVER_UNREACHABLE]"),
        (("--url", "redis://user:hush@127.0.0.1:1", "--option", "retryTimeoutMs=0"), 5, "redis://127.0.0.1:1"),
        (("--option", "stream=x"), 2, "[OPTION_ELSEWHERE]"),
        (("--option", "x"), 2, "NAME=VALUE"),
    ],
)
def test_a_server_that_cannot_be_used(cli_of: Cli, words: tuple[str, ...], status: int, said: str) -> None:
    """Each has its id and status; no password is shown."""
    shown = cli_of.failure("ls", *words, status=status)
    assert (said in shown, "hush" in shown) == (True, False)


@pytest.mark.redis
def test_a_profile_leads_to_a_server_with_tls(cli_of: Cli, tmp_path: Path) -> None:
    """With a client certificate and a password; a file that others can read is warned of. Without TLS it is named."""
    with topologies.encrypted("--requirepass", "hush") as encrypted:
        lines = [f'"{name}" = "{value}"\n' for name, value in {**encrypted.options, "password": "hush"}.items()]
        _profiles(tmp_path, "[tls]\n" + "".join(lines))
        assert cli_of.json("produce", "s", "a=1", "--profile", "tls") == {"added": 1}
        (tmp_path / "pystreams" / "profiles.toml").chmod(0o644)
        result = cli_of.result("ls", "--profile", "tls")
        assert ("can be read by others" in result.stderr, "hush" in result.output) == (True, False)
        plain = f"redis://localhost:{encrypted.port}"
        assert "[TLS_NEEDED]" in cli_of.failure("ls", "--url", plain, status=5)


def test_a_shell_completes_names_of_streams(
    cli_of: Cli, client: redis.Redis, place: servers.Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the server that the words before name; nothing where it cannot be reached."""
    for name in ("orders", "orders*", "other"):
        client.xadd(name, {"f": 1})
    monkeypatch.setenv("PYSTREAMS_URL", "redis://127.0.0.1:1")
    completion = ShellComplete(cli, {}, "pystreams", "_PYSTREAMS_COMPLETE")

    def completed(*words: str) -> list[str]:
        return sorted(item.value for item in completion.get_completions(list(words[:-1]), words[-1]))

    assert completed("tail", "--url", place.url, "ord") == ["orders", "orders*"]
    assert completed("info", "--url", place.url, "orders*") == ["orders*"]
    assert completed("info", "--option", "retryTimeoutMs=0", "ord") == []
    assert completed("gro") == ["groups"]


def test_errors_are_json_with_json(cli_of: Cli) -> None:
    """A program finds the id and the message on standard error."""
    error = json.loads(cli_of.failure("info", "nope", "--json", status=4))["error"]
    assert (error["id"], error["message"][:17]) == ("NO_SUCH_STREAM", "[NO_SUCH_STREAM] ")


def test_a_user_without_permission_is_told_what_is_missing(
    cli_of: Cli, client: redis.Redis, place: servers.Running
) -> None:
    """NOPERM is status 6, and names the command and the rules; a wrong password is status 5 and is not shown."""
    client.acl_setuser("poor", enabled=True, passwords=["+hush"], commands=["+echo", "+scan", "+xinfo"], keys=["s*"])
    try:
        client.xadd("s", {"f": 1})
        url = f"redis://poor:hush@{place.host}:{place.port}"
        assert json.loads(cli_of("ls", "s*", "--json", "--url", url))["streams"][0]["bytes"] is None
        client.xadd("other", {"f": 1})
        said = cli_of.failure("info", "other", "--url", url, status=6)
        assert ("[NOT_PERMITTED]" in said, "+memory|usage" in said, "hush" in said) == (True, True, False)
        wrong = f"redis://poor:wrongpass@{place.host}:{place.port}"
        said = cli_of.failure("ls", "--url", wrong, status=5)
        assert ("[LOGIN_REFUSED]" in said, "wrongpass" in said) == (True, False)
    finally:
        client.acl_deluser("poor")


@pytest.mark.parametrize("place", ["engine"], indirect=True)
def test_bash_completes_names_with_colons_and_spaces(
    client: redis.Redis, place: servers.Running, tmp_path: Path
) -> None:
    """Bash breaks words at colons, also those of the URL; what a name holds is not run, nor sent to the terminal."""
    for name in ("sensors:{0}", "sensors:one", "other", "odd name; $(reboot)", "odd\n\x1b[2J"):
        client.xadd(name, {"f": 1})
    (folder := tmp_path / "bin").mkdir()
    program = folder / "pystreams"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pystreams "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSTREAMS_URL": "redis://127.0.0.1:1"}
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    server = f"pystreams --url {place.url}"
    lines = [f"{server} tail sensors:", f"{server} info odd", f"{server} info sens"]
    script = 'eval "$(_PYSTREAMS_COMPLETE=bash_source pystreams)"\n' + "".join(
        f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; _pystreams_completion pystreams; "
        'printf "%s|" "${COMPREPLY[@]}"; echo\n'
        for line in lines
    )
    done = subprocess.run([needed("bash"), "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found = [sorted(filter(None, line.split("|"))) for line in done.stdout.splitlines()]
    assert found == [
        ["\\{0\\}", "one"],
        ["odd\\ name\\;\\ \\$\\(reboot\\)"],
        ["sensors:\\{0\\}", "sensors:one"],
    ]
