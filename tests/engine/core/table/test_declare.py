"""Declarations of commands: their syntax, summaries and HELP."""

from __future__ import annotations

import re

import pytest

from engine.core import commands as _commands  # noqa: F401 - fills the command table
from engine.core.protocol.xadd import ADD_OPTIONS, TRIM_OPTIONS, Option
from engine.core.table.registry import COMMANDS, Command
from tests.harness.syntax import Argument, arguments


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
