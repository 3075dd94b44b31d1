"""Command declarations: one decorator above the handler supplies everything that the table contains.

    hash_command = Family(group="hash", acl="hash", keys=ONE_KEY, since="2.0.0")

    @hash_command("hdel key field [field ...]", "write fast", access="RW delete", complexity="O(fields)")
    def hdel(ctx: Context, argv: list[bytes]) -> Reply:
        '''Deletes fields of a hash.'''

The usage supplies the name and the syntax, from which the arity is derived. The first paragraph of the handler's
docstring is the summary. A declaration inherits omitted properties from its family. ``container`` declares a command
with subcommands, including HELP, and returns the family of the subcommands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.core.protocol.replies import Reply, Simple
from engine.core.table.registry import COMMANDS, NO_KEYS, Channels, Command, Handler, Keys, register
from engine.core.table.syntax import arity_of, placeholders
from engine.text.messages import help_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Common properties of several commands. Called with one command's own properties, it returns a handler decorator.

    ``flags`` and ``acl`` (categories beyond those implied by flags) are space-separated words.
    """

    group: str
    acl: str = ""
    since: str = "1.0.0"
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
        since: str = "",
        complexity: str = "O(1)",
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
                    since=since or self.since,
                    summary=summary or summary_of(handler),
                    complexity=complexity,
                    syntax=syntax,
                    acl=frozenset((self.acl if acl is None else acl).split()),
                    access=access,
                    channels=channels,
                )
            )
            return handler

        return declare


def summary_of(handler: Handler) -> str:
    """Return the first paragraph of the docstring as one line; empty if Python has removed docstrings."""
    return " ".join((handler.__doc__ or "").strip().partition("\n\n")[0].split())


def container(
    name: str,
    summary: str,
    *,
    group: str,
    since: str,
    acl: str = "",
    flags: str = "",
    keys: Keys = NO_KEYS,
    help_since: str = "",
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

    whole = Family(group=group, since=since, flags=flags, acl=acl) if alone else Family(group=group, since=since)
    declare = whole(name, summary=summary, complexity="Depends on subcommand.", arity=-1 if alone else -2)
    declare(alone or never)
    family = Family(group=group, acl=acl, since=since, flags=flags, keys=keys, container=name)
    about = f"Returns a description of the subcommands of {name.upper()}."
    family("help", "loading stale", summary=about, since=help_since, keys=NO_KEYS)(show_help)
    return family
