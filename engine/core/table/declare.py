"""Command declarations: one decorator above the handler supplies everything that the table contains.

    hash_command = Family(group="hash", acl="hash", keys=ONE_KEY)

    @hash_command("hdel key field [field ...]", "write fast", access="RW delete")
    def hdel(ctx: Context, argv: list[bytes]) -> Reply:
        '''Deletes fields of a hash.'''

The usage supplies the name and the syntax, from which the arity is derived. The first paragraph of the handler's
docstring is the summary. A declaration inherits omitted properties from its family. ``container`` declares a command
with subcommands, including HELP, and returns the family of the subcommands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from engine.core.protocol.replies import Reply, Simple
from engine.core.table.registry import COMMANDS, NO_KEYS, Channels, Command, Handler, Keys, register
from engine.text.messages import help_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Common properties of several commands. Called with one command's own properties, it returns a handler decorator.

    ``flags`` and ``acl`` (categories beyond those implied by flags) are space-separated words.
    """

    group: str
    acl: str = ""
    flags: str = ""
    keys: Keys = NO_KEYS
    #: The command that contains these commands as subcommands, if any.
    container: str = ""

    def __call__(
        self,
        usage: str,
        flags: str | None = None,
        *,
        summary: str = "",
        keys: Keys | None = None,
        access: str = "",
        acl: str | None = None,
        channels: Channels | None = None,
        arity: int = 0,
    ) -> Callable[[Handler], Handler]:
        """Declare a command: ``usage`` is its name and its arguments in the notation of Redis's documentation.

        ``access`` describes the command's use of its keys (``Command.access``). ``summary`` is for a handler without a
        docstring, and ``arity`` for a usage that does not determine the arity. The other arguments override the
        family's.
        """
        name, _, syntax = usage.partition(" ")
        full_name = f"{self.container}|{name}" if self.container else name

        def declare(handler: Handler) -> Handler:
            register(
                Command(
                    name=full_name,
                    handler=handler,
                    arity=arity or arity_of(syntax, words=2 if self.container else 1),
                    flags=frozenset((self.flags if flags is None else flags).split()),
                    keys=self.keys if keys is None else keys,
                    group=self.group,
                    summary=summary or summary_of(handler),
                    syntax=syntax,
                    acl=frozenset((self.acl if acl is None else acl).split()),
                    access=access,
                    channels=channels,
                )
            )
            return handler

        return declare


_OPTIONAL = re.compile(r"\[[^\[\]]*\]")
#: The alternatives after the first one, within ``<...>`` and between two words.
_ALTERNATIVES = re.compile(r"\|[^>]*>|\| \S+")
_NAMES = re.compile(r"(?<![\w-])[a-z][a-z0-9-]*")


def arity_of(syntax: str, words: int) -> int:
    """Return the arity of a command with these arguments, whose name (and subcommand) has ``words`` words.

    The first of several alternatives is counted: they must have the same number of words.
    """
    required = syntax
    while "[" in required:
        required = _OPTIONAL.sub("", required)
    count = words + len(_ALTERNATIVES.sub("", required).split())
    return -count if required != syntax else count


def placeholders(syntax: str) -> str:
    """Return the syntax in HELP's notation: arguments in angle brackets, groups in parentheses."""
    grouped = syntax.replace("<", "(").replace(">", ")").replace(" | ", "|")
    return _NAMES.sub(r"<\g<0>>", grouped)


def summary_of(handler: Handler) -> str:
    """Return the first paragraph of the docstring as one line; empty if Python has removed docstrings."""
    return " ".join((handler.__doc__ or "").strip().partition("\n\n")[0].split())


def container(
    name: str,
    summary: str,
    *,
    group: str,
    acl: str = "",
    flags: str = "",
    keys: Keys = NO_KEYS,
    alone: Handler | None = None,
) -> Family:
    """Declare a command with subcommands, and its HELP; return the family of the subcommands.

    ``alone`` handles the command without a subcommand. If given, the command has the flags and categories of its
    subcommands.
    """

    def never(ctx: object, argv: list[bytes]) -> Reply:  # noqa: ARG001
        raise AssertionError(f"dispatch called the container {name}")

    def show_help(ctx: object, argv: list[bytes]) -> Reply:  # noqa: ARG001
        command = COMMANDS[name.upper().encode()]
        bare = [("(no subcommand)", command.summary)] if alone is not None else []
        subs = sorted((sub.name.partition("|")[2], sub) for sub in command.subcommands.values())
        known = [(f"{word.upper()} {placeholders(sub.syntax)}", sub.summary) for word, sub in subs if word != "help"]
        return [Simple(line) for line in help_lines(name.upper(), bare + known)]

    whole = Family(group=group, flags=flags, acl=acl) if alone else Family(group=group)
    declare = whole(name, summary=summary, arity=-1 if alone else -2)
    declare(alone or never)
    family = Family(group=group, acl=acl, flags=flags, keys=keys, container=name)
    about = f"Returns a description of the subcommands of {name.upper()}."
    family("help", "loading stale", summary=about, keys=NO_KEYS)(show_help)
    return family
