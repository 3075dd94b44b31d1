"""The checks of `doctor`: security, each with and without the weakness, and users with few rights."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from pystreams.connect import Wanted, connect
from pystreams.streams import checkup
from pystreams.streams.checkup import Verdict
from streamclient.config.address import Address
from tests import servers
from tests.pystreams.conftest import Cli, user
from tests.servers import sentinels


def _verdicts(cli: Cli, *words: str) -> dict[str, tuple[str, str]]:
    findings: list[dict[str, Any]] = json.loads(cli.result("doctor", "--json", *words).stdout)["findings"]
    return {each["what"]: (each["verdict"], each["found"]) for each in findings}


def test_an_open_server_gets_warnings(cli_of: Cli, client: redis.Redis) -> None:
    """A server without a password, with full rights for the default user, gets warnings if it is on
    the same machine.
    """
    found = _verdicts(cli_of)
    assert found["password"] == ("warning", "the default user has no password")
    assert found["default user"] == ("warning", "may call every command on every key")
    assert found["replicas"] == ("warning", "none")
    assert found["encryption"] == ("ok", "none, but the connection stays on this machine")
    assert found["eviction"] == ("ok", "noeviction")


def test_a_server_whose_default_user_is_off_passes(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """A server with a disabled default user, and a separate user per application, passes."""
    client.acl_setuser("admin", enabled=True, passwords=["+hush"], commands=["+@all"], keys=["*"], channels=["*"])
    client.execute_command("AUTH", "admin", "hush")
    url = f"redis://admin:hush@{instance.host}:{instance.port}"
    client.execute_command("ACL", "SETUSER", "default", "off")
    try:
        assert _verdicts(cli_of, "--url", url)["password"] == ("ok", "the default user is off")
        client.execute_command("ACL", "SETUSER", "default", "on", "resetpass", ">other", "-config", "resetkeys", "~a*")
        found = _verdicts(cli_of, "--url", url)
        assert (found["password"][0], found["default user"]) == ("ok", ("ok", "has limited rights"))
    finally:
        client.execute_command("ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all")
        client.execute_command("AUTH", "default", "")
        client.acl_deluser("admin")


@pytest.mark.parametrize(
    ("url", "local", "verdict"),
    [
        ("redis://127.0.0.1:1", True, Verdict.OK),
        ("redis://localhost", True, Verdict.OK),
        ("unix:///run/engine.sock", True, Verdict.OK),
        ("redis://streams.example.com", False, Verdict.WARNING),
        ("rediss://streams.example.com", False, Verdict.OK),
        ("redis+sentinel://127.0.0.1:1,10.0.0.1:1/main", False, Verdict.WARNING),
    ],
)
def test_plain_text_on_the_network_is_a_warning(url: str, local: bool, verdict: Verdict) -> None:
    """An unencrypted connection over the network is a warning; a connection within the machine is not."""
    assert checkup.is_local(Address(url)) is local
    assert checkup.encryption(Address(url), local=local).verdict is verdict


def test_clocks_that_differ_are_a_warning(tmp_path: Path) -> None:
    """A replica whose clock is a minute behind is reported."""
    with sentinels.family("engine", "redis") as (master, _):
        late = sentinels.Member("engine", tmp_path / "late", behind=60)
        try:
            late.start()
            late.run("REPLICAOF", "127.0.0.1", master.port)
            sentinels.wait_for(lambda: late.follows(master), "the late replica to follow", sentinels.PATIENCE)
            verdict, found = _verdicts(Cli(f"redis://127.0.0.1:{master.port}", tmp_path))["clocks"]
        finally:
            late.stop()
        assert verdict == "warning"
        assert found.endswith(f"ahead of 127.0.0.1:{late.port}")


def test_without_info_and_config_their_facts_are_unknown(instance: servers.Running, client: redis.Redis) -> None:
    """Without INFO and CONFIG, persistence and memory are reported as unknown, and replicas are not mentioned."""
    with user(client, "~*", "+@all", "-info", "-config") as url, closing(connect(Wanted(url), "")) as connection:
        found = {finding.subject: finding.found for finding in checkup.check(connection)}
    assert found["server"] == "INFO is refused"
    assert (found["persistence"], found["memory"]) == ("unknown", "unknown")
    assert "replicas" not in found


def test_a_user_name_that_contains_key_does_not_hide_refused_commands(
    instance: servers.Running, client: redis.Redis
) -> None:
    """A refused command is not mistaken for a refused key if the user's name contains "key"."""
    rules = ("~*", "+@all", "-xreadgroup")
    with user(client, *rules, name="monkey") as url, closing(connect(Wanted(url), "")) as connection:
        found = {finding.subject: finding.found for finding in checkup.check(connection, probe=True)}
    assert found["user"] == "monkey may not call XREADGROUP (reading with a group)"
    assert "keys" not in found
