"""Commands about the whole server: INFO, TIME, SHUTDOWN, WAIT, and what answers OK because there is nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import messages
from engine.core import info
from engine.core.args import parse_int
from engine.core.registry import command, container
from engine.core.replies import NO_REPLY, OK, CommandError, Reply, Verbatim

if TYPE_CHECKING:
    from engine.core.context import Context


@command("info", arity=-1, flags="loading stale", group="server", acl="dangerous", summary="Facts about the server.",
         syntax="[section [section ...]]")  # fmt: skip
def info_(ctx: Context, argv: list[bytes]) -> Reply:
    return Verbatim(info.text(ctx.core, [word.decode("latin-1").lower() for word in argv[1:]]))


@command("time", arity=1, flags="loading stale fast", group="server", since="2.6.0",
         summary="The server's time: seconds, and microseconds of this second.")  # fmt: skip
def time(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    seconds, micros = divmod(ctx.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


@command("shutdown", arity=-1, flags="admin noscript loading stale no_multi allow_busy", group="server",
         summary="Stop the server.", syntax="[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]")  # fmt: skip
def shutdown(ctx: Context, argv: list[bytes]) -> Reply:
    words = [word.upper() for word in argv[1:]]
    known = {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"}
    if set(words) - known or {b"SAVE", b"NOSAVE"} <= set(words) or (b"ABORT" in words and len(set(words)) > 1):
        raise CommandError(messages.SYNTAX)
    if b"ABORT" in words:
        raise CommandError(messages.NO_SHUTDOWN)
    ctx.core.durability.end(set(words))
    ctx.core.requests.append(("shutdown", {word.decode().lower() for word in words}))
    return NO_REPLY


@command("wait", arity=3, flags="noscript blocking", group="generic", since="3.0.0", acl="connection",
         summary="Wait until replicas have what this connection wrote; how many have.",
         syntax="numreplicas timeout")  # fmt: skip
def wait(ctx: Context, argv: list[bytes]) -> Reply:
    replicas = parse_int(argv[1])
    timeout = parse_int(argv[2], messages.TIMEOUT_NOT_INTEGER)
    if timeout < 0:
        raise CommandError(messages.TIMEOUT_NEGATIVE)
    if replicas <= 0:
        return 0
    return ctx.block(argv, [], timeout, type_name=b"", on_timeout=0)


# -- nothing to do --------------------------------------------------------------------------------------------------
# Tools empty a server's functions and scripts between tests; there are none.

container("function", group="scripting", since="7.0.0", summary="Functions, of which there are none.")
container("script", group="scripting", since="2.6.0", summary="Scripts, of which there are none.")


def _flush(name: str, error: bytes, since: str, flags: str) -> None:
    @command(f"{name}|flush", arity=-2, flags=flags, group="scripting", since=since, acl="scripting",
             summary="Forget all of them.", syntax="[ASYNC | SYNC]")  # fmt: skip
    def flush(ctx: Context, argv: list[bytes]) -> Reply:
        del ctx
        if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in (b"SYNC", b"ASYNC")):
            raise CommandError(error)
        return OK


_flush("function", messages.FUNCTION_FLUSH, "7.0.0", "write noscript")
_flush("script", messages.SCRIPT_FLUSH, "2.6.0", "noscript")
