"""Commands about connections: PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET, and CLIENT."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.core.clients.accounts import DEFAULT
from engine.core.clients.sessions import describe, session_type
from engine.core.commands.families import connection_command
from engine.core.commands.server.transactions import discard_transaction
from engine.core.protocol.args import Args, at_most, parse_int, parse_timeout
from engine.core.protocol.replies import NO_REPLY, OK, PONG, CommandError, Map, Reply, Simple, Verbatim
from engine.core.table.declare import container
from engine.text import messages
from engine.version import REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.clients.session import Session
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


@connection_command("reset", "loading stale fast no_auth")
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
        raise CommandError(b"ERR Client names cannot contain spaces, newlines or special characters.")
    return word


@connection_command(
    "hello [protover [AUTH username password] [SETNAME clientname]]",
    "loading stale fast no_auth",
)
def hello(ctx: Context, argv: list[bytes]) -> Reply:
    """Chooses the protocol's version, authenticates and names the connection, and describes the server."""
    session = ctx.session
    proto = session.proto
    args = Args(argv)
    if len(args):
        proto = args.take_int(b"ERR Protocol version is not an integer or out of range")
        if proto not in (2, 3):
            raise CommandError(b"NOPROTO unsupported protocol version")
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    while len(args):
        if len(args) > 2 and args.flag(b"AUTH"):
            login = args.take(), args.take()
        elif args.option(b"SETNAME"):
            name = check_name(args.take())
        else:
            raise CommandError(b"ERR Syntax error in HELLO option '%b'" % args.take())
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


client_subcommand = container(
    "client",
    "Commands that manage connections.",
    group="connection",
    acl="connection",
    flags="loading stale",
)


def _type_named(word: bytes) -> bytes:
    name = word.lower()
    if name not in (b"normal", b"master", b"replica", b"slave", b"pubsub"):
        raise CommandError(b"ERR Unknown client type '%b'" % word)
    return b"replica" if name == b"slave" else name


# -- the current connection -----------------------------------------------------------------------------------------


@client_subcommand("id")
def client_id(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the ID of the current connection."""
    return ctx.session.id


@client_subcommand("getname")
def getname(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the name of the current connection."""
    return ctx.session.name or None


@client_subcommand("setname connection-name")
def setname(ctx: Context, argv: list[bytes]) -> Reply:
    """Names the current connection."""
    ctx.session.name = check_name(argv[2])
    return OK


@client_subcommand("setinfo <LIB-NAME libname | LIB-VER libver>")
def setinfo(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets the name or version of the library that the current connection uses."""
    option = argv[2].lower()
    if option not in (b"lib-name", b"lib-ver"):
        raise CommandError(b"ERR Unrecognized option '%b'" % argv[2])
    if any(not 33 <= char <= 126 for char in argv[3]):
        raise CommandError(b"ERR %b cannot contain spaces, newlines or special characters." % argv[2])
    if option == b"lib-name":
        ctx.session.lib_name = argv[3]
    else:
        ctx.session.lib_ver = argv[3]
    return OK


@client_subcommand("reply <ON | OFF | SKIP>")
def reply_(ctx: Context, argv: list[bytes]) -> Reply:
    """Switches the current connection's replies on or off, or skips the next one."""
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
        raise CommandError(messages.SYNTAX)
    return NO_REPLY


# -- all connections ------------------------------------------------------------------------------------------------


@client_subcommand("info")
def info(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the line of CLIENT LIST for the current connection."""
    return Verbatim(describe(ctx.session, ctx.now, argv) + b"\n")


@client_subcommand(
    "list [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
    "admin loading stale",
)
def list_(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all connections, or those of a type or with given IDs."""
    args = Args(argv, 2)
    sessions: Iterable[Session] = ctx.sessions
    if len(argv) == 4 and args.flag(b"TYPE"):
        wanted = _type_named(args.take())
        sessions = [session for session in sessions if session_type(session) == wanted]
    elif len(argv) > 3 and args.flag(b"ID"):
        numbers = [parse_int(word, b"ERR Invalid client ID") for word in args.rest()]
        sessions = [session for session in map(ctx.sessions.get, numbers) if session is not None]
    elif len(argv) > 2:
        raise CommandError(messages.SYNTAX)
    sessions = list(sessions)
    # Build each line only once, even if its ID is repeated. The caller's line includes the size of this command's
    # words, so building it for each ID would take quadratic time.
    lines = {
        session: describe(session, ctx.now, argv if session is ctx.session else ()) + b"\n" for session in set(sessions)
    }
    return Verbatim(b"".join(map(lines.__getitem__, sessions)))


@client_subcommand(
    "kill <addr | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] [ADDR addr] "
    "[LADDR addr] [SKIPME <YES | NO>] [MAXAGE maxage]>",
    "admin loading stale",
    arity=-3,
)
def kill(ctx: Context, argv: list[bytes]) -> Reply:
    """Closes the connection with an address, or all connections that match every given option."""
    if len(argv) == 3:
        found = [session for session in ctx.sessions if session.addr == argv[2]]
        if not found:
            raise CommandError(b"ERR No such client")
        _close(ctx, found[:1])
        return OK
    found, skip_me = list(ctx.sessions), True
    for option, word in zip(argv[2::2], argv[3::2], strict=False):
        match option.upper():
            case b"ID":
                number = parse_int(word, messages.CLIENT_ID_POSITIVE)
                if number < 1:
                    raise CommandError(messages.CLIENT_ID_POSITIVE)
                found = [session for session in found if session.id == number]
            case b"TYPE":
                kind = _type_named(word)
                found = [session for session in found if session_type(session) == kind]
            case b"ADDR":
                found = [session for session in found if session.addr == word]
            case b"LADDR":
                found = [session for session in found if session.laddr == word]
            case b"USER":
                user = ctx.accounts.users.get(word)
                if user is None:
                    raise CommandError(b"ERR No such user '%b'" % word)
                found = [session for session in found if session.user is user]
            case b"MAXAGE":
                age = parse_int(word, b"ERR maxage is not an integer or out of range")
                if age < 1:
                    raise CommandError(b"ERR maxage should be greater than 0")
                found = [session for session in found if ctx.now - session.created_ms >= age * 1000]
            case b"SKIPME" if word.lower() in (b"yes", b"no"):
                skip_me = word.lower() == b"yes"
            case _:
                raise CommandError(messages.SYNTAX)
    if len(argv) % 2:
        raise CommandError(messages.SYNTAX)
    if skip_me:
        found = [session for session in found if session is not ctx.session]
    _close(ctx, found)
    return len(found)


def _close(ctx: Context, sessions: list[Session]) -> None:
    for session in sessions:
        ctx.close(session)


@client_subcommand("unblock client-id [TIMEOUT | ERROR]", "admin loading stale")
def unblock(ctx: Context, argv: list[bytes]) -> Reply:
    """Unblocks a connection that waits in a blocking command."""
    at_most(argv, 4)
    how = argv[3].upper() if len(argv) == 4 else b"TIMEOUT"
    if how not in (b"TIMEOUT", b"ERROR"):
        raise CommandError(b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    target = ctx.sessions.get(parse_int(argv[2]))
    if target is None or target.waiter is None:
        return 0
    if how == b"TIMEOUT":
        ctx.sessions.time_out(target)
    else:
        error = CommandError(messages.UNBLOCKED)
        ctx.telemetry.count_error(error)
        ctx.sessions.end_wait(target, error)
    return 1


@client_subcommand("pause timeout [WRITE | ALL]", "admin loading stale")
def pause(ctx: Context, argv: list[bytes]) -> Reply:
    """Holds back all commands, or those that write, for a number of milliseconds."""
    at_most(argv, 4)
    mode = argv[3].upper() if len(argv) == 4 else b"ALL"
    if mode not in (b"WRITE", b"ALL"):
        raise CommandError(b"ERR CLIENT PAUSE mode must be WRITE or ALL")
    timeout = parse_timeout(argv[2], ctx.now)
    ctx.divided.finish_all()
    until = ctx.pause.start(ctx.now, ctx.now + timeout, holds_all=mode == b"ALL")
    ctx.changes.hold_expiry("pause", until)
    ctx.host.follow_pause()
    return OK


@client_subcommand("unpause", "admin loading stale")
def unpause(ctx: Context, argv: list[bytes]) -> Reply:
    """Ends CLIENT PAUSE."""
    ctx.pause.end()
    ctx.changes.hold_expiry("pause", 0)
    ctx.host.follow_pause()
    return OK
