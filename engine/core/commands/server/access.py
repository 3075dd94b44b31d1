"""ACL: users and their permissions. The rules are in `engine.core.clients.acl`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.clients.accounts import DEFAULT, AclFile, UsersError
from engine.core.clients.acl import CATEGORIES, Selector, in_category
from engine.core.protocol.args import at_most, parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Reply, Set
from engine.core.table.declare import container
from engine.core.table.registry import called_by
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

acl_subcommand = container(
    "acl",
    "Commands that manage users and their permissions.",
    group="server",
    flags="admin loading stale",
)


# -- users ----------------------------------------------------------------------------------------------------------


@acl_subcommand("setuser username [rule [rule ...]]")
def setuser(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates or changes a user."""
    ctx.accounts.set_user(argv[2], argv[3:])
    return OK


@acl_subcommand("deluser username [username ...]")
def deluser(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes users and closes their connections."""
    if DEFAULT in argv[2:]:
        raise CommandError(b"ERR The 'default' user cannot be removed")
    return sum(ctx.accounts.delete(name) for name in argv[2:])


def _shown(selector: Selector) -> dict[bytes, Reply]:
    return {
        b"commands": selector.shown_commands(),
        b"keys": selector.shown_keys(),
        b"channels": selector.shown_channels(),
    }


@acl_subcommand("getuser username")
def getuser(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a user's flags, passwords, permissions and selectors."""
    user = ctx.accounts.users.get(argv[2])
    if user is None:
        return None
    root, *others = user.selectors
    return Map.of(
        {
            b"flags": Set(user.flags()),
            b"passwords": list(user.passwords),
            **_shown(root),
            b"selectors": [Map.of(_shown(other)) for other in others],
        }
    )


@acl_subcommand("list")
def list_(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all users with their rules, in the format of ACL files."""
    return [user.line() for user in ctx.accounts.sorted()]


@acl_subcommand("users")
def users(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the names of all users."""
    return [user.name for user in ctx.accounts.sorted()]


@acl_subcommand("whoami", "loading stale")
def whoami(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the name of the current connection's user."""
    return ctx.session.user.name


# -- files ----------------------------------------------------------------------------------------------------------


def _file(ctx: Context) -> AclFile:
    file = ctx.accounts.file
    if file is None:
        raise CommandError(messages.NO_FILE)
    return file


@acl_subcommand("load")
def load(ctx: Context, argv: list[bytes]) -> Reply:
    """Replaces all users with those of the ACL file; if the file has an error, nothing changes."""
    file = _file(ctx)
    try:
        ctx.accounts.load(file.read(), file.name)
    except OSError as error:
        raise CommandError(messages.not_read(file.name, error.strerror or "")) from None
    except UsersError as error:
        raise CommandError(b"ERR " + str(error).encode()) from None
    return OK


@acl_subcommand("save")
def save(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes the users to the ACL file."""
    try:
        _file(ctx).write(ctx.accounts.text())
    except OSError:
        raise CommandError(messages.NOT_SAVED) from None
    return OK


# -- queries --------------------------------------------------------------------------------------------------------


@acl_subcommand("cat [category]", "loading stale")
def cat(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all categories, or the commands of one category."""
    at_most(argv, 3)
    if len(argv) == 2:
        return [name.encode() for name in CATEGORIES]
    name = argv[2].decode("latin-1").lower()
    if name not in CATEGORIES:
        raise CommandError(b"ERR Unknown category '%b'" % argv[2])
    return [command.full_name for command in in_category(name)]


@acl_subcommand("dryrun username command [arg [arg ...]]")
def dryrun(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns whether a user may run a command, without running it."""
    user = ctx.accounts.users.get(argv[2])
    if user is None:
        raise CommandError(b"ERR User '%b' not found" % argv[2])
    words = argv[3:]
    found = called_by(words)
    if found is None:
        raise CommandError(b"ERR Command '%b' not found" % words[0])
    if not found.arity_fits(len(words)):
        raise CommandError(messages.wrong_arity(found.full_name))
    denial = user.denial(found, words)
    return OK if denial is None else messages.would_refuse(user.name, denial.reason, denial.name)


@acl_subcommand("log [count | RESET]")
def log(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns recent refusals, the newest first; RESET clears them."""
    at_most(argv, 3)
    entries = ctx.accounts.log.entries
    count = 10
    if len(argv) == 3:
        if argv[2].upper() == b"RESET":
            ctx.accounts.log.reset()
            return OK
        count = max(parse_int(argv[2]), 0)
    return [
        Map.of(
            {
                b"count": entry.count,
                b"reason": entry.reason.encode(),
                b"context": entry.context.encode(),
                b"object": entry.name,
                b"username": entry.user,
                b"age-seconds": max(ctx.now - entry.updated_ms, 0) / 1000,
                b"client-info": entry.client,
                b"entry-id": entry.number,
                b"timestamp-created": entry.created_ms,
                b"timestamp-last-updated": entry.updated_ms,
            }
        )
        for entry in entries[:count]
    ]
