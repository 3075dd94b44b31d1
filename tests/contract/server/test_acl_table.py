"""The command table compared with a real Redis: categories, flags and key access, which ACLs depend on."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core import commands as _commands  # noqa: F401 - fills the command table
from engine.core.clients.acl import CATEGORIES, in_category
from engine.core.table.registry import all_commands
from tests.harness.clients import SocketClient
from tests.harness.core import CoreServer
from tests.servers import Running

pytestmark = pytest.mark.redis

#: Commands whose categories or flags are those of a Redis later than 7.0, and the reason.
NEWER = {
    "wait": "it is a blocking command since 7.2",
    "subscribe": "it needs memory since 8.6",
    "psubscribe": "it needs memory since 8.6",
}


@pytest.fixture(scope="module")
def real(redis_process: Running) -> dict[str, Any]:
    """Return a real Redis's rows of COMMAND by full name, and under ``categories`` the commands of each category."""
    rows: dict[str, Any] = {}

    def take(row: Any) -> None:
        rows[row[0].decode()] = row
        for sub in row[9]:
            take(sub)

    with SocketClient(redis_process.connect(), 2, None) as client:
        for row in client.run("COMMAND"):
            take(row)
        rows["categories"] = {
            name.decode(): {word.decode() for word in client.run("ACL", "CAT", name)} for name in client.run("ACL CAT")
        }
    return rows


def test_categories_are_those_of_redis(real: dict[str, Any]) -> None:
    """The categories have Redis's order, and contain the same commands, except those that one server lacks."""
    assert tuple(real["categories"]) == CATEGORIES
    names = {command.full_name.decode() for command in all_commands()}
    for name, members in real["categories"].items():
        found = {command.full_name.decode() for command in in_category(name)} & set(real)
        assert found - set(NEWER) == (members & names) - set(NEWER), name


@pytest.mark.parametrize("sign", "+-")
def test_rules_may_name_every_command_of_redis(real: dict[str, Any], sign: str) -> None:
    """Rules about all commands and subcommands of Redis are accepted, also about those that the engine lacks."""
    server = CoreServer(2)
    names = sorted(set(real) - {"categories"})
    assert {"object|freq", "script|load", "memory|doctor", "client|tracking"} < set(names)
    refused = {name: reply for name in names if (reply := server.run(f"ACL SETUSER u {sign}{name}")) != b"OK"}
    assert not refused


def test_flags_and_arity_are_those_of_redis(real: dict[str, Any]) -> None:
    """Each command has Redis's arity and flags, except those of ``NEWER``."""
    for command in all_commands():
        row = real.get(command.full_name.decode())
        if row is not None and command.name not in NEWER:
            assert row[1] == command.arity, command.name
            flags = {word.decode() for word in row[2]}
            flags -= {"noscript", "allow_busy"}  # The engine runs no scripts.
            # COMMAND INFO does not show that a command may replicate the commands that it runs.
            hidden = {"may_replicate"} | ({"skip_slowlog"} - flags)
            assert flags == command.flags - hidden, command.name


def test_key_specifications_are_those_of_redis(real: dict[str, Any]) -> None:
    """Each command has Redis's key positions and flags of key specifications."""
    for command in all_commands():
        row = real.get(command.full_name.decode())
        if row is None:
            continue
        assert row[3:6] == [command.keys.first, command.keys.last, command.keys.step], command.name
        specs = [dict(zip(spec[::2], spec[1::2], strict=True)) for spec in row[8]]
        flags = [{word.decode() for word in spec[b"flags"]} for spec in specs]
        has_keys = bool(command.keys.first or command.keys.find)
        assert flags == ([set(use.words) for use in command.uses] if has_keys else []), command.name
