"""Commands about the whole server: INFO, TIME, SHUTDOWN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.families import server_command
from engine.core.commands.server import info
from engine.core.protocol.replies import NO_REPLY, OK, CommandError, Reply, Verbatim
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@server_command("info [section [section ...]]", "loading stale", acl="dangerous", complexity="O(connections)")
def info_(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns information about the server."""
    return Verbatim(info.text(ctx, [word.decode("latin-1").lower() for word in argv[1:]]))


@server_command("time", "loading stale fast", since="2.6.0")
def time(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the server's time: seconds since the epoch, and microseconds of this second."""
    seconds, micros = divmod(ctx.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


@server_command(
    "shutdown [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
    "admin loading stale no_multi",
    complexity="O(N) with N bytes of data to save; O(1) without saving.",
)
def shutdown(ctx: Context, argv: list[bytes]) -> Reply:
    """Stops the server. ABORT cancels a shutdown that waits for replicas."""
    words = [word.upper() for word in argv[1:]]
    known = {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"}
    if set(words) - known or {b"SAVE", b"NOSAVE"} <= set(words) or (b"ABORT" in words and len(set(words)) > 1):
        raise CommandError(messages.SYNTAX)
    if b"ABORT" in words:
        ctx.replication.abort_shutdown()
        return OK
    if ctx.replication.delays_shutdown(frozenset(words), ctx.session):
        return ctx.block(argv, [], 0)
    ctx.durability.prepare_shutdown(set(words))
    ctx.host.shut_down()
    return NO_REPLY
