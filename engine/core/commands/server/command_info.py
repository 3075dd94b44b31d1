"""COMMAND: the command table for clients. Everything is derived from the declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.protocol.replies import CommandError, Map, Reply, Set, Simple
from engine.core.table.declare import container
from engine.core.table.deprecated import DEPRECATED, INTERNAL
from engine.core.table.registry import COMMANDS, Command, called_by, find
from engine.core.table.syntax import arguments
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Internal flags that COMMAND INFO does not show.
_HIDDEN = frozenset({"may_replicate"})


def _words(names: frozenset[str] | list[str], prefix: str = "") -> Set:
    return Set([Simple(f"{prefix}{name}".encode()) for name in names])


# -- INFO -------------------------------------------------------------------------------------------------------------


def described(command: Command) -> Reply:
    """Return a command in the form of COMMAND INFO."""
    return [
        command.full_name,
        command.arity,
        _words(sorted(command.flags - _HIDDEN)),
        command.keys.first,
        command.keys.last,
        command.keys.step,
        _words(sorted(command.categories()), "@"),
        Set(),
        Set(),  # no key specifications: COMMAND GETKEYS finds the keys
        [described(sub) for sub in command.subcommands.values()],
    ]


def _all_described(ctx: Context, argv: list[bytes]) -> Reply:
    return [described(command) for command in COMMANDS.values()]


command_subcommand = container(
    "command",
    "Returns details about all commands.",
    group="server",
    acl="connection",
    since="2.8.13",
    flags="loading stale",
    help_since="5.0.0",
    alone=_all_described,
)


@command_subcommand("info [command-name [command-name ...]]", complexity="O(commands)")
def info(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns details about all or some commands."""
    if len(argv) == 2:
        return _all_described(ctx, argv)
    found = [find(name) for name in argv[2:]]
    return [None if command is None else described(command) for command in found]


@command_subcommand("count")
def count(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of commands."""
    return len(COMMANDS)


# -- DOCS -------------------------------------------------------------------------------------------------------------


def _documented(command: Command) -> Map:
    out = Map.of(
        {
            b"summary": command.summary.encode(),
            b"since": command.since.encode(),
            b"group": command.group.encode(),
            b"complexity": command.complexity.encode(),
        }
    )
    if command.name in DEPRECATED:
        deprecated_since, replaced_by = DEPRECATED[command.name]
        out += [b"deprecated_since", deprecated_since.encode(), b"replaced_by", replaced_by.encode()]
    marks = [Simple(b"deprecated")] * (command.name in DEPRECATED) + [Simple(b"syscmd")] * (command.name in INTERNAL)
    if marks:
        out += [b"doc_flags", Set(marks)]
    if command.syntax:
        out += [b"arguments", [argument.described() for argument in arguments(command.syntax)]]
    if command.subcommands:
        out += [
            b"subcommands",
            Map([x for sub in command.subcommands.values() for x in (sub.full_name, _documented(sub))]),
        ]
    return out


@command_subcommand("docs [command-name [command-name ...]]", since="7.0.0", complexity="O(commands)")
def docs(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the documentation of all or some commands."""
    found = [find(name) for name in argv[2:]] if len(argv) > 2 else list(COMMANDS.values())
    return Map([x for command in found if command is not None for x in (command.full_name, _documented(command))])


# -- GETKEYS ----------------------------------------------------------------------------------------------------------


def _keys_of(argv: list[bytes]) -> tuple[Command, list[bytes]]:
    command = called_by(argv)
    if command is None:
        raise CommandError(messages.GETKEYS_UNKNOWN)
    if command.keys.are_none:
        raise CommandError(messages.GETKEYS_NO_KEYS)
    if not command.arity_fits(len(argv)):
        raise CommandError(messages.GETKEYS_ARITY)
    keys = command.keys.of(argv)
    if not keys:
        raise CommandError(messages.GETKEYS_NOT_FOUND)
    return command, keys


@command_subcommand("getkeys command [arg [arg ...]]", arity=-3, complexity="O(words)")
def getkeys(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the keys in a complete command."""
    return _keys_of(argv[2:])[1]
