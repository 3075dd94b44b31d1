"""The security checks of `doctor`, each on a server with and without the weakness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from pystreams.connect import Wanted, connect
from pystreams.streams import checkup
from pystreams.streams.checkup import Verdict
from streamclient.config.address import Address
from tests import servers
from tests.pystreams.conftest import Cli
from tests.servers import sentinels, topologies


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


@pytest.mark.parametrize("kind", ["engine", "redis"])
def test_files_that_everyone_can_read_are_a_warning(kind: str, tmp_path: Path) -> None:
    """Snapshots and ACL files that everyone can read are reported, except a snapshot in a private directory."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (users := tmp_path / "users.acl").write_text("user default on nopass ~* &* +@all\n")
    users.chmod(0o600)
    tmp_path.chmod(0o755)
    start = servers.engine if kind == "engine" else servers.redis
    with start("--dir", str(data), "--appendonly", "yes", "--aclfile", str(users)) as running:
        cli = Cli(running.url, tmp_path)
        (dump := data / "dump.rdb").write_text("")
        dump.chmod(0o644)
        verdict, found = _verdicts(cli)["files"]
        assert (verdict, str(dump) in found) == ("warning", True)
        data.chmod(0o700)
        assert _verdicts(cli)["files"] == ("ok", "not readable by other users")
        users.chmod(0o644)
        assert _verdicts(cli)["files"] == ("warning", f"readable by everyone: {users}")


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


def test_a_tls_connection_passes(tmp_path: Path) -> None:
    with topologies.encrypted() as server:
        given = dict(server.options)
        connection = connect(Wanted(given.pop("url"), None, given), "")
        try:
            found = {each.subject: each for each in checkup.review(connection, {}, {"protected-mode": "no"})}
        finally:
            connection.close()
    assert found["encryption"].found == "TLS"
    assert "protected mode" not in found  # the server is on this machine
