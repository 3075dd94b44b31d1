"""Users of a configuration and of a file, across a restart; replaying the log needs no permissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import servers
from tests.engine.shell.refused_starts import refused
from tests.servers.connection import Connection


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acl")


def test_users_are_loaded_from_and_saved_to_a_file(directory: Path) -> None:
    """aclfile is read at startup; ACL SAVE replaces it, and ACL LOAD applies it completely or not at all."""
    file = directory / "users.acl"
    file.write_text("# ours\nuser alice on >pw ~a* +@all\n")
    with servers.engine("--aclfile", str(file)) as engine, Connection(engine) as admin, Connection(engine) as client:
        assert client.run("AUTH", "alice", "pw") == b"OK"
        assert client.run("SET", "a", "1") == b"OK"
        admin.run("ACL", "SETUSER", "bob", "on", "nopass", "+get", "(+set ~b)")
        assert admin.run("ACL", "SAVE") == b"OK"
        assert admin.run("ACL", "LOAD") == b"OK"
        assert client.run("ACL", "WHOAMI") == b"alice"
        file.write_text(file.read_text() + "user carl +foo\n")
        assert str(admin.run("ACL", "LOAD")).startswith(f"ERR {file}:4: Error in ACL SETUSER modifier '+foo': Unknown")
        assert admin.run("ACL", "USERS") == [b"alice", b"bob", b"default"]
        file.unlink()
        assert str(admin.run("ACL", "LOAD")).startswith(f"ERR Error loading ACLs, opening file '{file}': No such file")
        assert admin.run("ACL", "SAVE") == b"OK"
        assert file.stat().st_mode & 0o077 == 0
        assert [path.name for path in directory.iterdir()] == ["users.acl"]
        before = admin.run("ACL", "LIST")
    with servers.engine("--aclfile", str(file)) as engine, Connection(engine) as admin:
        assert admin.run("ACL", "LIST") == before


def test_users_can_be_in_the_configuration(directory: Path) -> None:
    """user lines are accepted in a configuration file and as flags; CONFIG REWRITE writes the current users."""
    file = directory / "engine.conf"
    file.write_text("# mine\nuser default on nopass ~* +@all -flushdb\nuser a on >pw ( +get ~a )\ntimeout 9\n")
    with servers.engine("--user", "b", "off", config_file=str(file)) as engine, Connection(engine) as client:
        assert str(client.run("FLUSHDB")).startswith("NOPERM ")
        client.run("ACL", "DELUSER", "b")
        assert client.run("CONFIG", "REWRITE") == b"OK"
        shown = client.run("ACL", "LIST")
        assert isinstance(shown, list)
    lines = file.read_text().splitlines()
    assert lines[0] == "# mine"
    assert lines[1:3] == [line.decode() for line in shown]
    assert lines[3] == "timeout 9"
    with servers.engine(config_file=str(file)) as engine, Connection(engine) as client:
        assert client.run("ACL", "LIST") == shown


def test_invalid_users_stop_the_start(directory: Path) -> None:
    """Invalid or duplicate users, users in both a file and flags, and rename-command stop the start with an error."""
    file = directory / "users.acl"
    file.write_text("user q on +foo\nbar\n")
    cases = (
        (("--aclfile", str(file)), f"{file}:1: Error in ACL SETUSER modifier '+foo': Unknown command"),
        (("--aclfile", str(directory / "none")), "cannot read the aclfile"),
        (("--aclfile", str(file), "--user", "a"), "users are declared in the configuration and in an aclfile"),
        (("--user", "a", "+foo"), "user a: Error in ACL SETUSER modifier '+foo': Unknown command"),
        (("--user", "a", "--user", "a"), "Duplicate user 'a' found"),
        (("--rename-command", "GET", "x"), "rename-command is not supported; ACL rules control who may call"),
    )
    base = ("--port", "0", "--dir", str(directory), "--save", "")
    for (_, message), output in zip(cases, refused([(*base, *arguments) for arguments, _ in cases]), strict=True):
        assert message in output


def test_the_log_is_replayed_without_permissions(directory: Path) -> None:
    """The log is replayed even if the default user has no permissions."""
    flags = ("--dir", str(directory), "--appendonly", "yes", "--user", "admin", "on", ">pw", "~*", "&*", "+@all")
    with servers.engine(*flags) as engine, Connection(engine) as client:
        client.run("XADD", "s", "1-1", "f", "v")
    with servers.engine(*flags, "--user", "default", "off", "-@all") as engine, Connection(engine) as client:
        assert client.run("AUTH", "admin", "pw") == b"OK"
        assert client.run("XLEN", "s") == 1


def test_a_restricted_producer_adds_pipelines_to_its_stream() -> None:
    """All XADDs of a long pipeline to the user's stream are added; all XADDs to another stream are rejected."""
    with servers.engine("--user", "p", "on", ">pw", "+xadd", "%W~ours") as engine, Connection(engine) as client:
        assert client.run("AUTH", "p", "pw") == b"OK"
        for key, good in ((b"ours", True), (b"theirs", False)):
            command = b"*5\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n" % (len(key), key)
            client.socket.sendall(command * 1000)
            replies = [client.receive() for _ in range(1000)]
            assert all(isinstance(reply, bytes) is good for reply in replies)
            if not good:
                assert {str(reply) for reply in replies} == {"NOPERM No permissions to access a key"}
