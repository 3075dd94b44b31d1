"""Commands about the connection itself: PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.clients.accounts import DEFAULT
from engine.core.commands.server.transactions import discard_transaction
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import OK, PONG, CommandError, Map, Reply, Simple
from engine.core.table.registry import command
from engine.text.messages import clients, general
from engine.version import REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.clients.session import Session
    from engine.core.environment.context import Context

_I32_MIN, _I32_MAX = -(1 << 31), (1 << 31) - 1


@command(
    "ping",
    arity=-1,
    flags="fast",
    group="connection",
    acl="connection",
    summary="Answer PONG, or the message.",
    syntax="[message]",
)
def ping(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 2:
        raise CommandError(general.wrong_arity(b"ping"))
    session = ctx.session
    if session.proto == 2 and (session.channels or session.patterns):
        return [b"pong", argv[1] if len(argv) == 2 else b""]
    return argv[1] if len(argv) == 2 else PONG


@command(
    "echo",
    arity=2,
    flags="loading stale fast",
    group="connection",
    acl="connection",
    summary="Answer the message.",
    syntax="message",
)
def echo(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx
    return argv[1]


@command(
    "select",
    arity=2,
    flags="loading stale fast",
    group="connection",
    acl="connection",
    summary="Use another database from now on.",
    syntax="index",
)
def select(ctx: Context, argv: list[bytes]) -> Reply:
    index = parse_int(argv[1])
    if not _I32_MIN <= index <= _I32_MAX:
        raise CommandError(general.OUT_OF_I32)
    if not 0 <= index < len(ctx.databases):
        raise CommandError(general.DB_INDEX_RANGE)
    ctx.session.db = index
    ctx.db = ctx.databases[index]
    return OK


@command(
    "quit",
    arity=-1,
    flags="allow_busy noscript loading stale fast no_auth",
    group="connection",
    acl="connection",
    summary="Close the connection, when what is on its way has been sent.",
)
def quit_(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    ctx.session.close_after_reply = True
    return OK


@command(
    "reset",
    arity=1,
    flags="noscript loading stale fast no_auth allow_busy",
    group="connection",
    since="6.2.0",
    acl="connection",
    summary="Make the connection as it was when it was new.",
)
def reset(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    session = ctx.session
    discard_transaction(ctx, session)
    ctx.pubsub.drop(session)
    session.db = 0
    ctx.db = ctx.databases[0]
    session.name = b""
    session.proto = 2
    session.reply_mode = "on"
    ctx.monitors.drop(session)
    session.no_evict = session.no_touch = False
    ctx.accounts.greet(session)
    return Simple(b"RESET")


# -- who the client is ----------------------------------------------------------------------------------------------


@command(
    "auth",
    arity=-2,
    flags="noscript loading stale fast no_auth allow_busy",
    group="connection",
    acl="connection",
    summary="Log in.",
    syntax="[username] password",
)
def auth(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 3:
        raise CommandError(general.SYNTAX)
    accounts = ctx.accounts
    if len(argv) == 2 and accounts.default.nopass:
        raise CommandError(clients.NO_PASSWORD_SET)
    accounts.log_in(ctx.session, argv[1] if len(argv) == 3 else DEFAULT, argv[-1], argv[0])
    return OK


def check_name(word: bytes) -> bytes:
    """A name that CLIENT LIST can show; a CommandError for others."""
    if any(not 33 <= char <= 126 for char in word):
        raise CommandError(clients.CLIENT_NAME)
    return word


@command(
    "hello",
    arity=-1,
    flags="noscript loading stale fast no_auth allow_busy",
    group="connection",
    since="6.0.0",
    acl="connection",
    summary="Choose the protocol, log in, give a name; answers who the server is.",
    syntax="[protover [AUTH username password] [SETNAME clientname]]",
)
def hello(ctx: Context, argv: list[bytes]) -> Reply:
    session = ctx.session
    proto = session.proto
    args = Args(argv)
    if len(args):
        proto = args.take_int(clients.PROTOCOL_VERSION_NOT_INTEGER)
        if proto not in (2, 3):
            raise CommandError(clients.NO_PROTO)
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    while len(args):
        if len(args) > 2 and args.flag(b"AUTH"):
            login = args.take(), args.take()
        elif args.option(b"SETNAME"):
            name = check_name(args.take())
        else:
            raise CommandError(clients.hello_option(args.take()))
    if login is not None:
        ctx.accounts.log_in(session, *login, argv[0])
    if not session.authenticated:
        raise CommandError(clients.HELLO_NO_AUTH)
    session.proto = proto
    if name is not None:
        session.name = name
    return _server(session)


def _server(session: Session) -> Map:
    return Map(
        [
            b"server",
            b"redis",
            b"version",
            REDIS_VERSION.encode(),
            b"proto",
            session.proto,
            b"id",
            session.id,
            b"mode",
            b"standalone",
            b"role",
            b"master",
            b"modules",
            [],
        ]
    )
