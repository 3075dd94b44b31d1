"""CLIENT: what is known of the connections, and what one may do to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from engine.core.clients.description import describe, session_type
from engine.core.commands.server.connection import check_name
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import NO_REPLY, OK, CommandError, Map, Reply, Set, Simple, Verbatim
from engine.core.table.registry import command, container
from engine.text.messages import clients, general

if TYPE_CHECKING:
    from engine.core.clients.session import Session
    from engine.core.environment.context import Context

_FLAGS = "noscript loading stale"

container("client", group="connection", since="2.4.0", summary="Facts about connections.")


def _type_named(word: bytes) -> bytes:
    name = word.lower()
    if name not in (b"normal", b"master", b"replica", b"slave", b"pubsub"):
        raise CommandError(clients.unknown_client_type(word))
    return name


def _on_off(word: bytes) -> bool:
    if word.lower() not in (b"on", b"off"):
        raise CommandError(general.SYNTAX)
    return word.lower() == b"on"


# -- one's own connection -------------------------------------------------------------------------------------------


@command(
    "client|id",
    arity=2,
    flags=_FLAGS,
    group="connection",
    since="5.0.0",
    acl="connection",
    summary="The number of this connection.",
)
def client_id(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    return ctx.session.id


@command(
    "client|getname",
    arity=2,
    flags=_FLAGS,
    group="connection",
    since="2.6.9",
    acl="connection",
    summary="The name of this connection.",
)
def getname(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    return ctx.session.name or None


@command(
    "client|setname",
    arity=3,
    flags=_FLAGS,
    group="connection",
    since="2.6.9",
    acl="connection",
    summary="Name this connection.",
    syntax="connection-name",
)
def setname(ctx: Context, argv: list[bytes]) -> Reply:
    ctx.session.name = check_name(argv[2])
    return OK


@command(
    "client|setinfo",
    arity=4,
    flags=_FLAGS,
    group="connection",
    since="7.2.0",
    acl="connection",
    summary="Say which library this connection is of.",
    syntax="<LIB-NAME libname | LIB-VER libver>",
)
def setinfo(ctx: Context, argv: list[bytes]) -> Reply:
    option = argv[2].lower()
    if option not in (b"lib-name", b"lib-ver"):
        raise CommandError(clients.unrecognized_client_option(argv[2]))
    if any(not 33 <= char <= 126 for char in argv[3]):
        raise CommandError(clients.client_info_characters(option))
    if option == b"lib-name":
        ctx.session.lib_name = argv[3]
    else:
        ctx.session.lib_ver = argv[3]
    return OK


@command(
    "client|reply",
    arity=3,
    flags=_FLAGS,
    group="connection",
    since="3.2.0",
    acl="connection",
    summary="Have replies sent, or not, or not the next one.",
    syntax="<ON | OFF | SKIP>",
)
def reply_(ctx: Context, argv: list[bytes]) -> Reply:
    session, mode = ctx.session, argv[2].lower()
    if mode == b"on":
        session.reply_mode = "on"
        return OK
    if mode == b"off":
        session.reply_mode = "off"
    elif mode == b"skip":
        if session.reply_mode != "off":
            session.reply_mode = "skip-next"
    else:
        raise CommandError(general.SYNTAX)
    return NO_REPLY


@command(
    "client|no-evict",
    arity=3,
    flags="admin noscript loading stale",
    group="connection",
    since="7.0.0",
    acl="connection",
    summary="Exempt this connection from eviction.",
    syntax="<ON | OFF>",
)
def no_evict(ctx: Context, argv: list[bytes]) -> Reply:
    ctx.session.no_evict = _on_off(argv[2])
    return OK


@command(
    "client|no-touch",
    arity=3,
    flags=_FLAGS,
    group="connection",
    since="7.2.0",
    acl="connection",
    summary="Let this connection's commands not count as use of keys.",
    syntax="<ON | OFF>",
)
def no_touch(ctx: Context, argv: list[bytes]) -> Reply:
    ctx.session.no_touch = _on_off(argv[2])
    return OK


@command(
    "client|trackinginfo",
    arity=2,
    flags=_FLAGS,
    group="connection",
    since="6.2.0",
    acl="connection",
    summary="Whether keys are tracked for this connection (they never are).",
)
def trackinginfo(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return Map([b"flags", Set([b"off"]), b"redirect", -1, b"prefixes", []])


@command(
    "client|tracking",
    arity=-3,
    flags=_FLAGS,
    group="connection",
    since="6.0.0",
    acl="connection",
    summary="Keys are not tracked: OFF is accepted.",
    syntax="<ON | OFF>",
)
def tracking(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx
    if _on_off(argv[2]):
        raise CommandError(clients.NO_TRACKING)
    return OK


@command(
    "client|caching",
    arity=3,
    flags=_FLAGS,
    group="connection",
    since="6.0.0",
    acl="connection",
    summary="Keys are not tracked, so there is nothing to cache.",
    syntax="<YES | NO>",
)
def caching(ctx: Context, argv: list[bytes]) -> Reply:
    raise CommandError(clients.NOT_TRACKING)


@command(
    "client|getredir",
    arity=2,
    flags=_FLAGS,
    group="connection",
    since="6.0.0",
    acl="connection",
    summary="Where tracking messages go (nowhere).",
)
def getredir(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return -1


# -- all connections ------------------------------------------------------------------------------------------------


@command(
    "client|info",
    arity=2,
    flags=_FLAGS,
    group="connection",
    since="6.2.0",
    acl="connection",
    summary="What CLIENT LIST says of this connection.",
)
def info(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    return Verbatim(describe(ctx.session, ctx.now) + b"\n")


@command(
    "client|list",
    arity=-2,
    flags="admin noscript loading stale",
    group="connection",
    since="2.4.0",
    acl="connection",
    summary="All connections, or those of a type, or some.",
    complexity="O(connections)",
    syntax="[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
)
def list_(ctx: Context, argv: list[bytes]) -> Reply:
    args = Args(argv, 2)
    sessions: Iterable[Session] = ctx.sessions
    if len(argv) == 4 and args.flag(b"TYPE"):
        wanted = _type_named(args.take())
        sessions = [one for one in sessions if session_type(one) == wanted]
    elif len(argv) > 3 and args.flag(b"ID"):
        numbers = [parse_int(word, clients.CLIENT_ID_INVALID) for word in args.rest()]
        sessions = [one for one in map(ctx.sessions.get, numbers) if one is not None]
    elif len(argv) > 2:
        raise CommandError(general.SYNTAX)
    return Verbatim(b"".join(describe(one, ctx.now) + b"\n" for one in sessions))


@command(
    "client|kill",
    arity=-3,
    flags="admin noscript loading stale",
    group="connection",
    since="2.4.0",
    acl="connection",
    summary="Close connections.",
    complexity="O(connections)",
    syntax="<addr | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] [ADDR addr] "
    "[LADDR addr] [SKIPME <YES | NO>] [MAXAGE maxage]>",
)
def kill(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) == 3:
        found = [one for one in ctx.sessions if one.addr == argv[2]]
        if not found:
            raise CommandError(clients.NO_SUCH_CLIENT)
        _close(ctx, found[:1])
        return OK
    if len(argv) % 2:
        raise CommandError(general.SYNTAX)
    tests, skip_me = _filters(ctx, argv)
    found = [one for one in ctx.sessions if all(test(one) for test in tests)]
    if skip_me:
        found = [one for one in found if one is not ctx.session]
    _close(ctx, found)
    return len(found)


def _filters(ctx: Context, argv: list[bytes]) -> tuple[list[Callable[[Session], bool]], bool]:
    """What CLIENT KILL's options ask of a session, and whether the caller is spared."""
    tests: list[Callable[[Session], bool]] = []
    skip_me = True
    for option, word in zip(argv[2::2], argv[3::2], strict=True):
        match option.upper():
            case b"ID":
                number = parse_int(word, clients.CLIENT_ID_POSITIVE)
                if number < 1:
                    raise CommandError(clients.CLIENT_ID_POSITIVE)
                tests.append(lambda one, number=number: one.id == number)  # type: ignore[misc]
            case b"TYPE":
                kind = _type_named(word)
                tests.append(lambda one, kind=kind: session_type(one) == kind)  # type: ignore[misc]
            case b"ADDR":
                tests.append(lambda one, word=word: one.addr == word)  # type: ignore[misc]
            case b"LADDR":
                tests.append(lambda one, word=word: one.laddr == word)  # type: ignore[misc]
            case b"USER":
                user = ctx.accounts.users.get(word)
                if user is None:
                    raise CommandError(clients.no_such_user(word))
                tests.append(lambda one, user=user: one.user is user)  # type: ignore[misc]
            case b"MAXAGE":
                age = parse_int(word, clients.MAXAGE_NOT_INTEGER)
                if age < 1:
                    raise CommandError(clients.MAXAGE_POSITIVE)
                tests.append(lambda one, age=age: ctx.now - one.created_ms >= age * 1000)  # type: ignore[misc]
            case b"SKIPME" if word.lower() in (b"yes", b"no"):
                skip_me = word.lower() == b"yes"
            case _:
                raise CommandError(general.SYNTAX)
    return tests, skip_me


def _close(ctx: Context, sessions: list[Session]) -> None:
    for session in sessions:
        ctx.close(session)


@command(
    "client|unblock",
    arity=-3,
    flags="admin noscript loading stale",
    group="connection",
    since="5.0.0",
    acl="connection",
    summary="Wake a connection from a blocking command.",
    syntax="client-id [TIMEOUT | ERROR]",
    complexity="O(log N)",
)
def unblock(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 4:
        raise CommandError(general.subcommand_arguments(b"client", argv[1]))
    how = argv[3].upper() if len(argv) == 4 else b"TIMEOUT"
    if how not in (b"TIMEOUT", b"ERROR"):
        raise CommandError(clients.UNBLOCK_REASON)
    target = ctx.sessions.get(parse_int(argv[2]))
    if target is None or target.waiter is None:
        return 0
    if how == b"TIMEOUT":
        ctx.sessions.time_out(target)
    else:
        ctx.sessions.end_wait(target, CommandError(clients.UNBLOCKED))
    return 1


@command(
    "client|pause",
    arity=-3,
    flags="admin noscript loading stale",
    group="connection",
    since="3.0.0",
    acl="connection",
    summary="Hold all commands back for a while, or those that write.",
    syntax="timeout [WRITE | ALL]",
)
def pause(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 4:
        raise CommandError(general.subcommand_arguments(b"client", argv[1]))
    mode = argv[3].upper() if len(argv) == 4 else b"ALL"
    if mode not in (b"WRITE", b"ALL"):
        raise CommandError(clients.PAUSE_MODE)
    timeout = parse_int(argv[2], general.TIMEOUT_NOT_INTEGER)
    if timeout < 0:
        raise CommandError(general.TIMEOUT_NEGATIVE)
    ctx.pause.begin(ctx.now, ctx.now + timeout, holds_all=mode == b"ALL")
    ctx.host.follow_pause()
    return OK


@command(
    "client|unpause",
    arity=2,
    flags="admin noscript loading stale",
    group="connection",
    since="6.2.0",
    acl="connection",
    summary="End CLIENT PAUSE.",
    complexity="O(connections)",
)
def unpause(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    ctx.pause.end()
    ctx.host.follow_pause()
    return OK


@command(
    "client|help",
    arity=2,
    flags="loading stale",
    group="connection",
    since="5.0.0",
    acl="connection",
    summary="What CLIENT can do.",
)
def help_(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return [Simple(line) for line in clients.CLIENT_HELP]
