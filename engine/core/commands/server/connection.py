"""Commands about the connection itself: PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.clients.accounts import DEFAULT
from engine.core.commands.families import connection_command
from engine.core.commands.server.transactions import discard_transaction
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import OK, PONG, CommandError, Map, Reply, Simple
from engine.text import messages
from engine.version import REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.environment.context import Context

_I32_MIN, _I32_MAX = -(1 << 31), (1 << 31) - 1


@connection_command("ping [message]", "fast")
def ping(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns PONG, or the message."""
    if len(argv) > 2:
        raise CommandError(messages.wrong_arity(b"ping"))
    session = ctx.session
    if session.proto == 2 and session.subscriptions:
        return [b"pong", argv[1] if len(argv) == 2 else b""]
    return argv[1] if len(argv) == 2 else PONG


@connection_command("echo message", "loading stale fast")
def echo(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the message."""
    return argv[1]


@connection_command("select index", "loading stale fast")
def select(ctx: Context, argv: list[bytes]) -> Reply:
    """Selects another database for the current connection."""
    index = parse_int(argv[1])
    if not _I32_MIN <= index <= _I32_MAX:
        raise CommandError(messages.OUT_OF_I32)
    if not 0 <= index < len(ctx.databases):
        raise CommandError(messages.DB_INDEX_RANGE)
    ctx.session.db = index
    ctx.db = ctx.databases[index]
    return OK


@connection_command("quit", "loading stale fast no_auth", arity=-1)
def quit_(ctx: Context, argv: list[bytes]) -> Reply:
    """Closes the connection after pending replies have been sent."""
    ctx.session.close_after_reply = True
    return OK


@connection_command("reset", "loading stale fast no_auth", since="6.2.0")
def reset(ctx: Context, argv: list[bytes]) -> Reply:
    """Resets the connection to its initial state."""
    session = ctx.session
    discard_transaction(ctx, session)
    ctx.pubsub.drop(session)
    session.db = 0
    ctx.db = ctx.databases[0]
    session.name = b""
    session.proto = 2
    session.reply_mode = "on"
    ctx.monitors.drop(session)
    session.no_evict = False
    ctx.accounts.greet(session)
    return Simple(b"RESET")


# -- authentication and naming --------------------------------------------------------------------------------------


@connection_command("auth [username] password", "loading stale fast no_auth")
def auth(ctx: Context, argv: list[bytes]) -> Reply:
    """Authenticates the connection."""
    if len(argv) > 3:
        raise CommandError(messages.SYNTAX)
    accounts = ctx.accounts
    if len(argv) == 2 and accounts.default.nopass:
        raise CommandError(messages.NO_PASSWORD_SET)
    accounts.log_in(ctx.session, argv[1] if len(argv) == 3 else DEFAULT, argv[-1], argv[0])
    return OK


def check_name(word: bytes) -> bytes:
    """Return a client name that CLIENT LIST can show. Raise CommandError for other names."""
    if any(not 33 <= char <= 126 for char in word):
        raise CommandError(messages.CLIENT_NAME)
    return word


@connection_command(
    "hello [protover [AUTH username password] [SETNAME clientname]]",
    "loading stale fast no_auth",
    since="6.0.0",
)
def hello(ctx: Context, argv: list[bytes]) -> Reply:
    """Chooses the protocol's version, authenticates and names the connection, and describes the server."""
    session = ctx.session
    proto = session.proto
    args = Args(argv)
    if len(args):
        proto = args.take_int(messages.PROTOCOL_VERSION_NOT_INTEGER)
        if proto not in (2, 3):
            raise CommandError(messages.NO_PROTO)
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    while len(args):
        if len(args) > 2 and args.flag(b"AUTH"):
            login = args.take(), args.take()
        elif args.option(b"SETNAME"):
            name = check_name(args.take())
        else:
            raise CommandError(messages.hello_option(args.take()))
    if login is not None:
        ctx.accounts.log_in(session, *login, argv[0])
    if not session.authenticated:
        raise CommandError(messages.HELLO_NO_AUTH)
    session.proto = proto
    if name is not None:
        session.name = name
    return _server(ctx)


def _server(ctx: Context) -> Map:
    return Map.of(
        {
            b"server": b"redis",
            b"version": REDIS_VERSION.encode(),
            b"proto": ctx.session.proto,
            b"id": ctx.session.id,
            b"mode": b"standalone",
            b"role": b"replica" if ctx.replication.follows else b"master",
            b"modules": [],
        }
    )
