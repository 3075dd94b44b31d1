"""Declarations of commands: values derived from usage, docstring and family, and HELP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.core import commands as _commands  # noqa: F401 - fills the command table
from engine.core.protocol.replies import Reply
from engine.core.table.declare import Family, container
from engine.core.table.registry import COMMANDS, NO_KEYS, ONE_KEY, Command

FAMILY = Family(group="list", acl="list", since="2.0.0", flags="write", keys=ONE_KEY)


@pytest.fixture
def added() -> Iterator[set[bytes]]:
    """Yield a set of names; after the test, remove these and all commands that the test declared."""
    before = set(COMMANDS)
    names: set[bytes] = set()
    yield names
    names |= set(COMMANDS) - before
    for name in names:
        del COMMANDS[name]


def handler(ctx: Any, argv: list[bytes]) -> Reply:
    """Does nothing, but over
    two lines.

    This is not for the documentation.
    """


@pytest.mark.usefixtures("added")
def test_a_name_is_declared_once() -> None:
    """Declaring a name twice raises an error."""
    FAMILY("x.twice key")(handler)
    with pytest.raises(ValueError, match="declared twice"):
        FAMILY("x.twice key")(handler)


@pytest.mark.usefixtures("added")
def test_a_container_has_subcommands_and_help() -> None:
    """Only the subcommands of a container have keys and categories, and HELP lists the declared ones."""
    subcommand = container("x.box", "Holds.", group="list", since="4.0.0", acl="list", keys=ONE_KEY, help_since="5.0.0")
    subcommand("put key <ON | OFF>", "write")(handler)
    box = COMMANDS[b"X.BOX"]
    assert (box.arity, box.acl, box.keys, set(box.subcommands)) == (-2, set(), NO_KEYS, {b"PUT", b"HELP"})
    put, show = box.subcommands[b"PUT"], box.subcommands[b"HELP"]
    assert (put.full_name, put.arity, put.acl, put.keys) == (b"x.box|put", 4, {"list"}, ONE_KEY)
    assert (show.arity, show.since, show.keys) == (2, "5.0.0", NO_KEYS)
    assert show.handler(None, [b"X.BOX", b"HELP"]) == [
        b"X.BOX <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"PUT <key> (ON|OFF)",
        b"    Does nothing, but over two lines.",
        b"HELP",
        b"    Print this help.",
    ]


@pytest.mark.usefixtures("added")
def test_a_container_may_run_without_a_subcommand() -> None:
    """A container that runs without a subcommand has its own flags and categories, and HELP describes it."""
    container("x.lone", "Counts.", group="list", since="4.0.0", acl="list", flags="stale", alone=handler)
    lone = COMMANDS[b"X.LONE"]
    assert (lone.handler, lone.arity, lone.acl, lone.flags) == (handler, -1, {"list"}, {"stale"})
    assert lone.subcommands[b"HELP"].handler(None, [])[1:3] == [b"(no subcommand)", b"    Counts."]


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS.values() if command.subcommands], ids=lambda command: command.name
)
def test_help_has_every_subcommand(command: Command) -> None:
    """HELP has a line for each subcommand's syntax and one for its summary."""
    lines = command.subcommands[b"HELP"].handler(None, [])
    called = {line.partition(b" ")[0] for line in lines[1::2]}
    assert called - {b"(no"} == set(command.subcommands)
    assert all(line.startswith(b"    ") and len(line) > 5 for line in lines[2::2])
