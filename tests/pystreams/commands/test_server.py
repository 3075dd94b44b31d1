"""`pystreams doctor` and `serve`: a server's check-up, and the engine in the foreground."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from pystreams.commands.root import cli
from pystreams.connect import Wanted, connect
from streamclient.errors import PystreamsError
from tests import ROOT, servers
from tests.pystreams.conftest import Cli, user


def _findings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in json.loads(text)["findings"]:
        found.setdefault(each["what"], []).append(each["verdict"])
    return found


def test_a_healthy_server_has_no_problem(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """`doctor` reports only missing persistence, as a warning, for the tests' servers, and leaves no key behind."""
    found = _findings(cli_of("doctor", instance.url, "--json"))
    assert {"server", "role", "clock", "user", "eviction"} <= set(found)
    assert ("scripts" in found) is ("engine_name" not in client.info("server"))
    assert (found["user"], found["eviction"], found["persistence"]) == (["ok"], ["ok"], ["warning"])
    assert client.dbsize() == 0
    assert "All data is lost when the server stops" in cli_of("doctor")


@pytest.mark.parametrize("instance", ["redis"], indirect=True)
def test_problems_exit_with_3(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """`doctor` reports missing permissions and an eviction policy, exits with 3, and shows no password."""
    client.acl_setuser(
        "poor", enabled=True, passwords=["+hush"], commands=["+@all", "-xreadgroup", "-config", "-eval"], keys=["s*"]
    )
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        result = cli_of.result(
            "doctor", "--probe", "--json", "--url", f"redis://poor:hush@{instance.host}:{instance.port}"
        )
        assert (result.exit_code, "hush" in result.output) == (3, False)
        found = _findings(result.stdout)
        assert (found["eviction"], found["settings"], found["keys"], found["scripts"]) == (
            ["problem"],
            ["note"],
            ["note"],
            ["note"],
        )
        (user,) = [each for each in json.loads(result.stdout)["findings"] if each["what"] == "user"]
        assert user["found"] == "poor may not call XREADGROUP (reading with a group)"
    finally:
        client.config_set("maxmemory-policy", "noeviction")
        client.acl_deluser("poor")


def test_the_engine_runs_in_the_foreground(tmp_path: Path) -> None:
    """`serve` prints the ready line, keeps its data in the given directory, and ends on SIGTERM with status 0."""
    command = [sys.executable, "-m", "pystreams", "serve", "--port", "0", "--data", "data", "--maxmemory", "1gb"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    output = tmp_path / "errors.txt"
    with (
        output.open("wb") as sink,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=sink) as process,
    ):
        try:
            host, port = servers.ready_line(process, output)
            with redis.Redis(host=host, port=port) as client:
                client.xadd("s", {"kept": "yes"})
                assert client.config_get("maxmemory")["maxmemory"] == "1073741824"
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            servers.stop(process)
    assert any(b"kept" in file.read_bytes() for file in (tmp_path / "data" / "appendonlydir").iterdir())


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("", ["--port", "6379", "--bind", "127.0.0.1", "--save", ""]),
        (
            "--timeout 5",
            ["--port", "6379", "--bind", "127.0.0.1", "--save", "", "--timeout", "5"],
        ),
        ("--config FILE", ["FILE"]),
        ("--config FILE --port 7000 --data DIR", ["FILE", "--port", "7000", "--dir", "DIR", "--appendonly", "yes"]),
    ],
)
def test_options_become_engine_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, settings: list[str]
) -> None:
    """Options of `serve` override the configuration file, and defaults do not."""
    file, directory = tmp_path / "file.conf", tmp_path / "data"
    file.write_text("port 7001\n")
    paths = {"FILE": str(file), "DIR": str(directory)}
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    given = [paths.get(word, word) for word in words.split()]
    result = CliRunner().invoke(cli, ["serve", *given])
    assert result.exit_code == 0, result.output
    found = started[0][started[0].index("engine.__main__") + 1 :]
    assert found == [paths.get(word, word) for word in settings]


def test_doctor_finds_rights_without_refused_calls(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """A user who may call ACL DRYRUN gets its missing rights, and ACL LOG stays empty. Others need `--probe`."""
    with user(client, "~s*", "+@all", "-xreadgroup") as url:
        client.execute_command("ACL", "LOG", "RESET")
        found = cli_of.result("doctor", url).stdout
        assert "narrow may not call XREADGROUP (reading with a group)" in found
        assert client.execute_command("ACL", "LOG") == []
        client.execute_command("ACL", "SETUSER", "narrow", "-acl")
        assert "the rights of narrow are unknown" in cli_of.result("doctor", url).stdout
        refused = {entry["object"] for entry in client.acl_log()}
        assert all(each.startswith("acl") for each in refused), refused
        client.execute_command("ACL", "LOG", "RESET")


@pytest.fixture
def hanging() -> Iterator[str]:
    """The URL of a server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"


def test_a_server_that_hangs_is_named_and_given_up(hanging: str, tmp_path: Path) -> None:
    """After two seconds, a note says what is waited for; after 2.5 seconds, or --timeout, the command fails."""
    cli = Cli(hanging, tmp_path)
    error = cli.failure("ls", status=5)
    assert f"waiting for a reply of {hanging.removeprefix('redis://')}" in error
    assert "[SERVER_UNREACHABLE]" in error
    error = cli.failure("doctor", "--timeout", "100ms", status=5)
    assert ("[SERVER_UNREACHABLE]" in error, "waiting" in error) == (True, False)
    assert "Invalid value for '--timeout'" in cli.failure("ls", "--timeout", "soon", status=2)


@pytest.mark.redis
def test_a_server_that_hangs_later_is_given_up(tmp_path: Path) -> None:
    """A server that stops replying after the connection was opened fails the command within the time of `--timeout`."""
    with servers.redis() as server:
        cli = Cli(server.url, tmp_path)
        with redis.Redis(port=server.port) as client:
            client.xadd("s", {"n": 1})
        connection = connect(Wanted(server.url, seconds=0.3), "")
        server.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(PystreamsError, match="SERVER_UNREACHABLE"):
                connection.pipeline([("XLEN", "s")])
            assert "[SERVER_UNREACHABLE]" in cli.failure("info", "s", "--timeout", "300ms", status=5)
        finally:
            connection.close()
            server.process.send_signal(signal.SIGCONT)
