"""ACL: users and what they may do; the rules stand in `engine.core.clients.acl`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.core.clients.accounts import DEFAULT, AclFile, UsersError
from engine.core.clients.acl.selector import CATEGORIES, Selector, in_category
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Reply, Set, Simple
from engine.core.table.registry import COMMANDS, Command, command, container
from engine.text.messages import acl, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

_OPEN = "noscript loading stale"
_ADMIN = "admin noscript loading stale"
_SINCE = "6.0.0"
_MOST_BITS = 4096

container("acl", group="server", since=_SINCE, summary="Users and what they may do.")


# -- users ----------------------------------------------------------------------------------------------------------


@command(
    "acl|setuser",
    arity=-3,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(rules)",
    summary="Make a user, or change one.",
    syntax="username [rule [rule ...]]",
)
def setuser(ctx: Context, argv: list[bytes]) -> Reply:
    ctx.accounts.set_user(argv[2], argv[3:])
    return OK


@command(
    "acl|deluser",
    arity=-3,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(connections)",
    summary="Delete users, and close their connections; how many there were.",
    syntax="username [username ...]",
)
def deluser(ctx: Context, argv: list[bytes]) -> Reply:
    if DEFAULT in argv[2:]:
        raise CommandError(acl.DEFAULT_STAYS)
    return sum(ctx.accounts.delete(name) for name in argv[2:])


def _shown(selector: Selector) -> list[Any]:
    return [
        b"commands",
        selector.shown_commands(),
        b"keys",
        selector.shown_keys(),
        b"channels",
        selector.shown_channels(),
    ]


@command(
    "acl|getuser",
    arity=3,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(rules)",
    summary="The rules of a user, one kind after the other.",
    syntax="username",
)
def getuser(ctx: Context, argv: list[bytes]) -> Reply:
    user = ctx.accounts.users.get(argv[2])
    if user is None:
        return None
    root, *others = user.selectors
    return Map(
        [
            b"flags",
            Set(user.flags()),
            b"passwords",
            list(user.passwords),
            *_shown(root),
            b"selectors",
            [Map(_shown(other)) for other in others],
        ]
    )


@command(
    "acl|list",
    arity=2,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(users)",
    summary="All users with their rules.",
)
def list_(ctx: Context, argv: list[bytes]) -> Reply:
    return [user.line() for user in ctx.accounts.sorted()]


@command(
    "acl|users",
    arity=2,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(users)",
    summary="The names of all users.",
)
def users(ctx: Context, argv: list[bytes]) -> Reply:
    return [user.name for user in ctx.accounts.sorted()]


@command(
    "acl|whoami", arity=2, flags=_OPEN, group="server", since=_SINCE, summary="The name of this connection's user."
)
def whoami(ctx: Context, argv: list[bytes]) -> Reply:
    return ctx.session.user.name


# -- files ----------------------------------------------------------------------------------------------------------


def _file(ctx: Context) -> AclFile:
    file = ctx.accounts.file
    if file is None:
        raise CommandError(acl.NO_FILE)
    return file


@command(
    "acl|load",
    arity=2,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(users)",
    summary="Have the users of the ACL file, all of them or none.",
)
def load(ctx: Context, argv: list[bytes]) -> Reply:
    file = _file(ctx)
    try:
        ctx.accounts.load(file.read(), file.name)
    except OSError as error:
        raise CommandError(acl.not_read(file.name, error.strerror or "")) from None
    except UsersError as error:
        raise CommandError(b"ERR " + str(error).encode()) from None
    return OK


@command(
    "acl|save",
    arity=2,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(users)",
    summary="Write the users to the ACL file.",
)
def save(ctx: Context, argv: list[bytes]) -> Reply:
    try:
        _file(ctx).write(ctx.accounts.text())
    except OSError:
        raise CommandError(acl.NOT_SAVED) from None
    return OK


# -- asking ---------------------------------------------------------------------------------------------------------


@command(
    "acl|cat",
    arity=-2,
    flags=_OPEN,
    group="server",
    since=_SINCE,
    summary="The categories, or the commands of one.",
    syntax="[category]",
)
def cat(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 3:
        raise CommandError(general.subcommand_arguments(b"acl", argv[1]))
    if len(argv) == 2:
        return [name.encode() for name in CATEGORIES]
    name = argv[2].decode("latin-1").lower()
    if name not in CATEGORIES:
        raise CommandError(acl.unknown_category(argv[2]))
    return [one.full_name for one in in_category(name)]


@command(
    "acl|genpass",
    arity=-2,
    flags=_OPEN,
    group="server",
    since=_SINCE,
    summary="A password drawn by chance, of 256 bits or as many as are wished.",
    syntax="[bits]",
)
def genpass(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 3:
        raise CommandError(general.subcommand_arguments(b"acl", argv[1]))
    bits = parse_int(argv[2]) if len(argv) == 3 else 256
    if not 0 < bits <= _MOST_BITS:
        raise CommandError(acl.BITS)
    digits = (bits + 3) // 4
    return b"%0*x" % (digits, ctx.accounts.draw(16**digits))


@command(
    "acl|dryrun",
    arity=-4,
    flags=_ADMIN,
    group="server",
    since="7.0.0",
    summary="Whether a user might run a command, which is not run.",
    syntax="username command [arg [arg ...]]",
)
def dryrun(ctx: Context, argv: list[bytes]) -> Reply:
    user = ctx.accounts.users.get(argv[2])
    if user is None:
        raise CommandError(acl.user_not_found(argv[2]))
    words = argv[3:]
    found = _called(words)
    if found is None:
        raise CommandError(acl.command_not_found(words[0]))
    if not found.arity_fits(len(words)):
        raise CommandError(general.wrong_arity(found.full_name))
    denial = user.denial(found, words)
    return OK if denial is None else acl.would_refuse(user.name, denial.reason, denial.name)


def _called(words: list[bytes]) -> Command | None:
    found = COMMANDS.get(words[0].upper())
    if found is not None and found.subcommands and len(words) > 1:
        return found.subcommands.get(words[1].upper())
    return found


@command(
    "acl|log",
    arity=-2,
    flags=_ADMIN,
    group="server",
    since=_SINCE,
    complexity="O(entries)",
    summary="What was refused lately, the newest first; RESET forgets it.",
    syntax="[count | RESET]",
)
def log(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 3:
        raise CommandError(general.subcommand_arguments(b"acl", argv[1]))
    entries = ctx.accounts.log.entries
    count = 10
    if len(argv) == 3:
        if argv[2].upper() == b"RESET":
            ctx.accounts.log.reset()
            return OK
        count = max(parse_int(argv[2]), 0)
    return [
        Map(
            [
                b"count",
                entry.count,
                b"reason",
                entry.reason.encode(),
                b"context",
                entry.context.encode(),
                b"object",
                entry.name,
                b"username",
                entry.user,
                b"age-seconds",
                max(ctx.now - entry.updated_ms, 0) / 1000,
                b"client-info",
                entry.client,
                b"entry-id",
                entry.number,
                b"timestamp-created",
                entry.created_ms,
                b"timestamp-last-updated",
                entry.updated_ms,
            ]
        )
        for entry in entries[:count]
    ]


@command("acl|help", arity=2, flags="loading stale", group="server", since=_SINCE, summary="What ACL can do.")
def help_(ctx: Context, argv: list[bytes]) -> Reply:
    return [Simple(line) for line in acl.ACL_HELP]
