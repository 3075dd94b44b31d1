"""Declarations of commands: values derived from usage, docstring and family, and HELP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from engine.core import commands as _commands  # noqa: F401 - fills the command table
from engine.core.protocol.replies import Reply
from engine.core.protocol.xadd import ADD_OPTIONS, TRIM_OPTIONS, Option
from engine.core.table.declare import Family, container
from engine.core.table.registry import COMMANDS, NO_KEYS, ONE_KEY, Command
from tests.harness.syntax import Argument, arguments

FAMILY = Family(group="list", acl="list", flags="write", keys=ONE_KEY)


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
    subcommand = container("x.box", "Holds.", group="list", acl="list", keys=ONE_KEY)
    subcommand("put key <ON | OFF>", "write")(handler)
    box = COMMANDS[b"X.BOX"]
    assert (box.arity, box.acl, box.keys, set(box.subcommands)) == (-2, set(), NO_KEYS, {b"PUT", b"HELP"})
    put, show = box.subcommands[b"PUT"], box.subcommands[b"HELP"]
    assert (put.full_name, put.arity, put.acl, put.keys) == (b"x.box|put", 4, {"list"}, ONE_KEY)
    assert (show.arity, show.keys) == (2, NO_KEYS)
    assert show.handler(None, [b"X.BOX", b"HELP"]) == [
        b"X.BOX <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"PUT <key> (ON|OFF)",
        b"    Does nothing, but over two lines.",
        b"HELP",
        b"    Print this help.",
    ]


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS.values() if command.subcommands], ids=lambda command: command.name
)
def test_help_has_every_subcommand(command: Command) -> None:
    """HELP has a line for each subcommand's syntax and one for its summary."""
    lines = command.subcommands[b"HELP"].handler(None, [])
    called = {line.partition(b" ")[0] for line in lines[1::2]}
    assert called - {b"(no"} == set(command.subcommands)
    assert all(line.startswith(b"    ") and len(line) > 5 for line in lines[2::2])


def test_every_declaration_has_a_summary_and_a_valid_syntax() -> None:
    """All commands of the table have a summary, and commands with arguments list them."""
    for parent in COMMANDS.values():
        for command in (parent, *parent.subcommands.values()):
            found = arguments(command.syntax)
            words = len(command.name.split("|"))
            takes_more = command.arity > words or command.arity < -words
            assert bool(found) or not takes_more or command.subcommands or command.name == "quit", command.name
            assert re.fullmatch(r"[A-Z].*\.", command.summary), command.name


@pytest.mark.parametrize(("name", "options"), [(b"xadd", ADD_OPTIONS), (b"xtrim", TRIM_OPTIONS)])
def test_declared_options_are_those_of_the_option_table(name: bytes, options: dict[bytes, Option]) -> None:
    """The declarations of XADD and XTRIM and the table of their options name the same tokens, with the same values."""
    parts = [part for argument in arguments(COMMANDS[name.upper()].syntax) for part in flattened(argument)]
    options_in_syntax = [part for part in parts if part.token.isalpha()]
    counts = {part.token.encode(): len(part.parts) or int(part.kind != "pure-token") for part in options_in_syntax}
    # The threshold is an argument without a token.
    counts |= {b"MAXLEN": 1, b"MINID": 1}
    assert counts == {token: option.values for token, option in options.items()}


def flattened(argument: Argument) -> list[Argument]:
    """Return an argument and all its parts, except the parts of an option with several values."""
    return [argument, *(inner for part in argument.parts if not argument.token for inner in flattened(part))]
