"""Syntax lines of the command table, as COMMAND DOCS gives them."""

from __future__ import annotations

import re

import pytest

from engine.core import dispatch
from engine.core.protocol.xadd import ADD_OPTIONS, TRIM_OPTIONS, Option
from engine.core.table.registry import COMMANDS
from engine.core.table.syntax import Argument, arguments


def shown(argument: Argument) -> str:
    """Return an argument as one line: TOKEN=name, {group}, (a | b), ? for optional, + for several."""
    text = argument.token if argument.kind == "pure-token" else argument.name
    if argument.kind == "block":
        text = "{" + " ".join(map(shown, argument.parts)) + "}"
    elif argument.kind == "oneof":
        text = "(" + " | ".join(map(shown, argument.parts)) + ")"
    if argument.token and argument.kind != "pure-token":
        text = f"{argument.token}={text}"
    return text + "+" * argument.multiple + "?" * argument.optional


@pytest.mark.parametrize(
    ("syntax", "meaning"),
    [
        ("key", "key"),
        ("key [key ...]", "key+"),
        ("[message]", "message?"),
        ("[channel [channel ...]]", "channel+?"),
        ("field value [field value ...]", "{field value}+"),
        ("[COUNT count] [NOACK]", "COUNT=count? NOACK?"),
        (
            "GROUP group consumer [COUNT count] STREAMS key [key ...] id [id ...]",
            "GROUP={group consumer} COUNT=count? STREAMS={key+ id+}",
        ),
        ("key MAXLEN | MINID [= | ~] threshold", "key (MAXLEN | MINID) (= | ~)? threshold"),
        ("<* | id> field", "(* | id) field"),
        ("[NX|XX] [EX seconds|KEEPTTL]", "(NX | XX)? (EX=seconds | KEEPTTL)?"),
        ("[IDMPAUTO pid | IDMP pid iid]", "(IDMPAUTO=pid | IDMP={pid iid})?"),
    ],
)
def test_a_syntax_line_is_understood(syntax: str, meaning: str) -> None:
    assert " ".join(map(shown, arguments(syntax))) == meaning


def test_every_declaration_has_a_summary_and_a_valid_syntax() -> None:
    """All commands of the table have a summary, and commands with arguments list them."""
    assert dispatch.COMMANDS is COMMANDS
    for parent in COMMANDS.values():
        for command in (parent, *parent.subcommands.values()):
            found = arguments(command.syntax)
            words = len(command.name.split("|"))
            takes_more = command.arity > words or command.arity < -words
            assert bool(found) or not takes_more or command.subcommands or command.name == "quit", command.name
            assert re.fullmatch(r"[A-Z].*\.", command.summary), command.name


@pytest.mark.parametrize("syntax", ["[key", "key]", "<a | b"])
def test_unbalanced_brackets_are_an_error(syntax: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        arguments(syntax)


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
