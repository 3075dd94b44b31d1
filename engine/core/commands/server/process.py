"""Commands about the whole server: INFO, TIME, SHUTDOWN, WAIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.server import info
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import NO_REPLY, CommandError, Reply, Verbatim
from engine.core.table.registry import command
from engine.text.messages import general, persistence

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@command(
    "info",
    arity=-1,
    flags="loading stale",
    group="server",
    acl="dangerous",
    summary="Facts about the server.",
    syntax="[section [section ...]]",
)
def info_(ctx: Context, argv: list[bytes]) -> Reply:
    return Verbatim(info.text(ctx, [word.decode("latin-1").lower() for word in argv[1:]]))


@command(
    "time",
    arity=1,
    flags="loading stale fast",
    group="server",
    since="2.6.0",
    summary="The server's time: seconds, and microseconds of this second.",
)
def time(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    seconds, micros = divmod(ctx.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


@command(
    "shutdown",
    arity=-1,
    flags="admin noscript loading stale no_multi allow_busy",
    group="server",
    summary="Stop the server.",
    syntax="[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
)
def shutdown(ctx: Context, argv: list[bytes]) -> Reply:
    words = [word.upper() for word in argv[1:]]
    known = {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"}
    if set(words) - known or {b"SAVE", b"NOSAVE"} <= set(words) or (b"ABORT" in words and len(set(words)) > 1):
        raise CommandError(general.SYNTAX)
    if b"ABORT" in words:
        raise CommandError(persistence.NO_SHUTDOWN)
    ctx.durability.end(set(words))
    ctx.host.shut_down()
    return NO_REPLY


@command(
    "wait",
    arity=3,
    flags="noscript blocking",
    group="generic",
    since="3.0.0",
    acl="connection",
    summary="Wait until replicas have what this connection wrote; how many have.",
    syntax="numreplicas timeout",
)
def wait(ctx: Context, argv: list[bytes]) -> Reply:
    replicas = parse_int(argv[1])
    timeout = parse_int(argv[2], general.TIMEOUT_NOT_INTEGER)
    if timeout < 0:
        raise CommandError(general.TIMEOUT_NEGATIVE)
    if replicas <= 0:
        return 0
    return ctx.block(argv, [], timeout, type_name=b"", on_timeout=0)
