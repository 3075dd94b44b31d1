"""SAVE BGSAVE LASTSAVE BGREWRITEAOF WAITAOF: what they mean to a client.

The work is done by :attr:`engine.core.dispatch.Core.durability`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import CommandError, Reply
from engine.core.table.registry import command
from engine.text.messages import general, persistence

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@command(
    "save",
    arity=1,
    flags="admin noscript no_async_loading no_multi",
    group="server",
    summary="Writes a snapshot, and serves nobody until it is on the disk.",
    complexity="O(N)",
)
def save(ctx: Context, argv: list[bytes]) -> Reply:
    return ctx.durability.save()


@command(
    "bgsave",
    arity=-1,
    flags="admin noscript no_async_loading",
    group="server",
    summary="Begins to write a snapshot of this moment beside the work.",
    complexity="O(1)",
    syntax="[SCHEDULE]",
)
def bgsave(ctx: Context, argv: list[bytes]) -> Reply:
    schedule = len(argv) > 1
    if len(argv) > 2 or (schedule and argv[1].upper() != b"SCHEDULE"):
        raise CommandError(general.SYNTAX)
    return ctx.durability.save_beside(schedule=schedule)


@command(
    "lastsave",
    arity=1,
    flags="loading stale fast",
    group="server",
    acl="admin dangerous",
    summary="Returns when the last snapshot was finished, in seconds since the epoch.",
)
def lastsave(ctx: Context, argv: list[bytes]) -> Reply:
    return ctx.durability.last_save()


@command(
    "bgrewriteaof",
    arity=1,
    flags="admin noscript no_async_loading",
    group="server",
    summary="Begins to rewrite the append-only file to what the data need.",
)
def bgrewriteaof(ctx: Context, argv: list[bytes]) -> Reply:
    return ctx.durability.rewrite()


@command(
    "waitaof",
    arity=-4,
    flags="noscript blocking",
    group="generic",
    since="7.2.0",
    acl="connection",
    summary="Waits until what was written before it is on the disk here, and on that of replicas.",
    syntax="numlocal numreplicas timeout",
)
def waitaof(ctx: Context, argv: list[bytes]) -> Reply:
    """``[1 if it is on the disk here, replicas that have it on theirs]``.

    A command that runs anew has the place in the log that it waits for as its last word.
    """
    durability = ctx.durability
    if ctx.retry is None and len(argv) != 4:
        raise CommandError(general.wrong_arity(b"waitaof"))
    local, replicas = parse_int(argv[1], general.OUT_OF_0_1), parse_int(argv[2])
    timeout = parse_int(argv[3], general.TIMEOUT_NOT_INTEGER)
    if not 0 <= local <= 1:
        raise CommandError(general.OUT_OF_0_1)
    if replicas < 0:
        raise CommandError(general.NOT_POSITIVE)
    if timeout < 0:
        raise CommandError(general.TIMEOUT_NEGATIVE)
    if local and not durability.logging:
        raise CommandError(persistence.WAITAOF_NO_LOG)
    place = int(argv[4]) if ctx.retry is not None else durability.place()
    safe = int(durability.logging and durability.is_safe(place))
    if safe >= local and not replicas:
        return [safe, 0]
    if ctx.retry is not None:
        ctx.retry.on_timeout = [safe, 0]
    durability.tell(ctx.session)
    return ctx.block([*argv[:4], b"%d" % place], [], timeout, type_name=b"", on_timeout=[safe, 0])
