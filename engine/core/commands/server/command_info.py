"""COMMAND: the command table for clients. Everything is derived from the declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.protocol.replies import CommandError, Map, Reply, Set, Simple
from engine.core.table.declare import container
from engine.core.table.deprecated import DEPRECATED, INTERNAL
from engine.core.table.registry import COMMANDS, Command, Use, all_commands, called_by, find
from engine.core.table.syntax import arguments
from engine.text.globs import matcher
from engine.text.messages import general, server

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Internal flags that COMMAND INFO does not show.
_HIDDEN = frozenset({"may_replicate"})


def _words(names: frozenset[str] | list[str], prefix: str = "") -> Set:
    return Set([Simple(f"{prefix}{name}".encode()) for name in names])


# -- INFO -------------------------------------------------------------------------------------------------------------


def _access(use: Use) -> Set:
    return _words(list(use.words))


def _key_specs(command: Command) -> Set:
    keys = command.keys
    if len(command.uses) > 1:
        last = len(command.uses) - 1
        return Set(
            [
                _range(use, keys.first + number, keys.last if number == last and keys.last < 0 else 0, 1)
                for number, use in enumerate(command.uses)
            ]
        )
    if keys.find is not None:
        at = 4 if command.name == "xreadgroup" else 1
        begin = Map.of({b"type": b"keyword", b"spec": Map.of({b"keyword": b"STREAMS", b"startfrom": at})})
        return Set([_spec(command.uses[0], begin, -1, 1, 2)])
    if not keys.first:
        return Set()
    last = keys.last if keys.last < 0 else keys.last - keys.first
    return Set([_range(command.uses[0], keys.first, last, keys.step)])


def _range(use: Use, first: int, last: int, step: int) -> Map:
    """Describe keys at fixed positions. ``last`` is relative to ``first``; negative numbers count from the end."""
    return _spec(use, Map.of({b"type": b"index", b"spec": Map.of({b"index": first})}), last, step, 0)


def _spec(use: Use, begin: Map, last: int, step: int, limit: int) -> Map:
    found = Map.of({b"type": b"range", b"spec": Map.of({b"lastkey": last, b"keystep": step, b"limit": limit})})
    return Map.of({b"flags": _access(use), b"begin_search": begin, b"find_keys": found})


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
        _key_specs(command),
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


@command_subcommand(
    "list [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", since="7.0.0", complexity="O(commands)"
)
def list_(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the names of all commands, or of those that a filter selects."""
    if len(argv) == 2:
        return [command.full_name for command in all_commands()]
    if len(argv) != 5 or argv[2].upper() != b"FILTERBY":
        raise CommandError(general.SYNTAX)
    kind, word = argv[3].upper(), argv[4]
    if kind == b"MODULE":
        return []
    if kind == b"ACLCAT":
        category = word.decode("latin-1").lower()
        return [command.full_name for command in all_commands() if category in command.categories()]
    if kind == b"PATTERN":
        return list(filter(matcher(word, ignore_case=True), [command.full_name for command in all_commands()]))
    raise CommandError(general.SYNTAX)


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
        raise CommandError(server.GETKEYS_UNKNOWN)
    if command.keys.are_none:
        raise CommandError(server.GETKEYS_NO_KEYS)
    if not command.arity_fits(len(argv)):
        raise CommandError(server.GETKEYS_ARITY)
    keys = command.keys.of(argv)
    if not keys and "no_mandatory_keys" not in command.flags:
        raise CommandError(server.GETKEYS_NOT_FOUND)
    return command, keys


@command_subcommand("getkeys command [arg [arg ...]]", arity=-3, complexity="O(words)")
def getkeys(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the keys in a complete command."""
    return _keys_of(argv[2:])[1]


@command_subcommand("getkeysandflags command [arg [arg ...]]", arity=-3, since="7.0.0", complexity="O(words)")
def getkeysandflags(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the keys in a complete command, and how it uses each key."""
    command, _ = _keys_of(argv[2:])
    return [[key, _access(use)] for key, use in command.touched(argv[2:])]
