"""Choosing the server, errors of unusable servers, and hidden secrets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import redis

from spark_streams.embedded import launcher
from spark_streams.embedded.drivers import Process
from tests import servers
from tests.pystreams.conftest import Cli, on_engine, user
from tests.servers import topologies


def _profiles(home: Path, text: str) -> None:
    file = home / "pystreams" / "profiles.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


@on_engine
def test_the_server_comes_from_url_profile_or_environment(
    cli_of: Cli, client: redis.Redis, instance: servers.Running, tmp_path: Path
) -> None:
    """`--url` takes precedence over `--profile`, the environment, and the default profile, in this order."""
    client.xadd("s", {"f": 1})
    nowhere = "redis://127.0.0.1:1"
    _profiles(
        tmp_path, f'default = "here"\n[here]\nurl = "{instance.url}"\n[no]\nurl = "{nowhere}"\nretryTimeoutMs = 0\n'
    )
    for words, environment in [
        (("--url", instance.url, "ls"), {"PYSTREAMS_URL": nowhere}),
        (("ls", "--profile", "here"), {"PYSTREAMS_URL": nowhere}),
        (("ls",), {"PYSTREAMS_URL": instance.url, "PYSTREAMS_PROFILE": "no"}),
        (("ls",), {"PYSTREAMS_URL": None, "PYSTREAMS_PROFILE": "here"}),
        (("ls",), {"PYSTREAMS_URL": None}),
    ]:
        result = cli_of.result(*words, "--json", **environment)
        assert (result.exit_code, len(json.loads(result.stdout)["streams"])) == (0, 1)
    result = cli_of.result("ls", "--profile", "no", PYSTREAMS_URL=instance.url)
    assert (result.exit_code, "[SERVER_UNREACHABLE]" in result.stderr) == (5, True)


def _engine(url: str, data: str | None = None) -> launcher.Running:
    return launcher.Running(url, Process.of(os.getpid()), data)


@on_engine
def test_embedded_engines_are_used_by_flag(
    cli_of: Cli, client: redis.Redis, instance: servers.Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--embedded` uses the only running embedded engine. Several engines, which are listed, or none are an error."""
    client.xadd("s", {"f": 1})
    nowhere = "redis://127.0.0.1:1"
    monkeypatch.setattr(launcher, "running", lambda: [_engine(instance.url)])
    for words in (("--embedded", "ls"), ("ls", "--embedded")):
        result = cli_of.result(*words, "--json", PYSTREAMS_URL=nowhere)
        assert (result.exit_code, len(json.loads(result.stdout)["streams"])) == (0, 1)
    assert "--embedded excludes --url and --profile" in cli_of.failure(
        "ls", "--embedded", "--url", instance.url, status=2
    )
    monkeypatch.setattr(launcher, "running", lambda: [_engine(instance.url), _engine("unix:///tmp/a/socket", "/data")])
    error = cli_of.failure("ls", "--embedded", status=2)
    assert "[MANY_EMBEDDED] 2 embedded engines" in error
    assert f"\n  {instance.url} (in memory, of process {os.getpid()}: " in error
    assert f"\n  unix:///tmp/a/socket (in /data, of process {os.getpid()}: " in error
    monkeypatch.setattr(launcher, "running", list)
    assert "[NO_EMBEDDED]" in cli_of.failure("ls", "--embedded", status=5)


@on_engine
def test_unusable_profiles_are_errors(cli_of: Cli, tmp_path: Path) -> None:
    """A missing profile, an unknown option and a malformed file are errors. For the option, the
    nearest name is given.
    """
    _profiles(tmp_path, '[a]\nurl = "redis://h"\n[b]\nurll = "x"\npassword = "hush"\n')
    assert "[NO_PROFILE] There is no profile 'c'" in cli_of.failure("ls", "--profile", "c", status=4)
    error = cli_of.failure("ls", "--profile", "b", status=2)
    assert ("nearest known name is 'url'" in error, "hush" in error) == (True, False)
    _profiles(tmp_path, "[a\n")
    assert "[PROFILES_MALFORMED]" in cli_of.failure("ls", "--profile", "a", status=2)


@on_engine
@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("--url", "nonsense"), 2, "it has no scheme"),
        (("--url", "http://h"), 2, "its scheme must be one of"),
        (("--url", "redis://127.0.0.1:1", "--option", "retryTimeoutMs=0"), 5, "[SERVER_UNREACHABLE]"),
        (("--url", "redis://user:hush@127.0.0.1:1", "--option", "retryTimeoutMs=0"), 5, "redis://127.0.0.1:1"),
        (("--option", "stream=x"), 2, "[OPTION_ELSEWHERE]"),
        (("--option", "x"), 2, "NAME=VALUE"),
    ],
)
def test_an_unusable_server_is_an_error(cli_of: Cli, words: tuple[str, ...], status: int, reason: str) -> None:
    """Each error has its ID and exit status, and shows no password."""
    shown = cli_of.failure("ls", *words, status=status)
    assert (reason in shown, "hush" in shown) == (True, False)


@pytest.mark.redis
def test_a_profile_with_tls(cli_of: Cli, tmp_path: Path) -> None:
    """A profile may hold a client certificate and a password, with a warning if others can read it. Without TLS, the
    error is TLS_NEEDED.
    """
    with topologies.encrypted("--requirepass", "hush") as encrypted:
        lines = [f'"{name}" = "{value}"\n' for name, value in {**encrypted.options, "password": "hush"}.items()]
        _profiles(tmp_path, "[tls]\n" + "".join(lines))
        assert cli_of.json("produce", "s", "a=1", "--profile", "tls") == {"added": 1}
        (tmp_path / "pystreams" / "profiles.toml").chmod(0o644)
        result = cli_of.result("ls", "--profile", "tls")
        assert ("can be read by others" in result.stderr, "hush" in result.output) == (True, False)
        plain = f"redis://localhost:{encrypted.port}"
        assert "[TLS_NEEDED]" in cli_of.failure("ls", "--url", plain, status=5)


@on_engine
@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (("ls", "--url", "redis://bob:pw@127.0.0.1:1"), True),
        (("--url", "redis://:pw@127.0.0.1:1", "ls"), True),
        (("ls", "--url", "redis+sentinel://bob:pw@127.0.0.1:1,127.0.0.1:2/main"), True),
        (("ls", "--option", "Password=pw"), True),
        (("doctor", "redis://bob:pw@127.0.0.1:1"), True),
        (("ls", "--url", "redis://bob@127.0.0.1:1"), False),
        (("ls",), False),
    ],
)
def test_a_password_on_the_command_line_causes_a_warning(cli_of: Cli, words: tuple[str, ...], warned: bool) -> None:
    """A password on the command line causes a warning; one in the environment or in a profile does not."""
    cli_of.environment["PYSTREAMS_URL"] = "redis://bob:pw@127.0.0.1:1"
    errors = cli_of.result(*words, "--option", "retryTimeoutMs=0").stderr
    assert errors.count("while this command runs: set PYSTREAMS_PASSWORD") == (1 if warned else 0)
    assert ":pw" not in errors


def test_a_wrong_password_is_not_shown(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """A refused login exits with 5. A user without MEMORY USAGE gets streams without sizes."""
    with user(client, "~s*", "+echo", "+scan", "+xinfo", name="poor") as url:
        client.xadd("s", {"f": 1})
        assert json.loads(cli_of("ls", "s*", "--json", "--url", url))["streams"][0]["bytes"] is None
        error = cli_of.failure("ls", "--url", url.replace("pass", "wrongpass"), status=5)
        assert ("[LOGIN_REFUSED]" in error, "wrongpass" in error) == (True, False)


def test_a_missing_certificate_file_is_an_invalid_option(tmp_path: Path) -> None:
    """A missing certificate file is reported as an invalid option, whether the server answers or not."""
    error = Cli("rediss://127.0.0.1:1", tmp_path).failure("ls", "--option", "tls.caFile=/nowhere/ca.pem", status=2)
    assert error.startswith("error: [INVALID_OPTION] Option 'tls.caFile' is '/nowhere/ca.pem'")
