"""SAVE, BGSAVE, LASTSAVE, BGREWRITEAOF and WAITAOF.

``engine.core.dispatch.Core.durability`` does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.families import generic_command, server_command
from engine.core.protocol.args import parse_int, parse_timeout
from engine.core.protocol.replies import CommandError, Reply
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context


#: Complexity of the work before the background work starts.
_IMAGE = "O(keys + open segments + blocks of pending entries); strings and sealed segments are not copied."


@server_command("save", "admin no_async_loading no_multi", complexity="O(N) with N bytes of data.")
def save(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes a snapshot, and blocks all clients until it is on disk."""
    return ctx.durability.save()


@server_command("bgsave [SCHEDULE]", "admin no_async_loading", complexity=_IMAGE)
def bgsave(ctx: Context, argv: list[bytes]) -> Reply:
    """Starts to write a snapshot of the current data in the background."""
    schedule = len(argv) > 1
    if len(argv) > 2 or (schedule and argv[1].upper() != b"SCHEDULE"):
        raise CommandError(messages.SYNTAX)
    return ctx.durability.save_in_background(schedule=schedule, within=ctx.session.in_exec)


@server_command("lastsave", "loading stale fast", acl="admin dangerous")
def lastsave(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns when the last snapshot was finished, in seconds since the epoch."""
    return ctx.durability.last_save()


@server_command("bgrewriteaof", "admin no_async_loading", complexity=_IMAGE)
def bgrewriteaof(ctx: Context, argv: list[bytes]) -> Reply:
    """Starts to compact the append-only file in the background."""
    return ctx.durability.rewrite_log(within=ctx.session.in_exec)


@generic_command("waitaof numlocal numreplicas timeout", "blocking", since="7.2.0")
def waitaof(ctx: Context, argv: list[bytes]) -> Reply:
    """Waits until earlier writes are on the disk of this server, of a number of replicas, or of both.

    The reply is ``[1 if the writes are on disk here, number of replicas that have them on disk]``.

    When a blocked command runs again, ``argv[3]`` is no longer the timeout but the two awaited offsets, as
    ``log:replication``.
    """
    durability, replication = ctx.durability, ctx.replication
    local, replicas = parse_int(argv[1], messages.OUT_OF_0_1), parse_int(argv[2])
    if replication.follows:
        raise CommandError(messages.WAITAOF_ON_REPLICA)
    if not 0 <= local <= 1:
        raise CommandError(messages.OUT_OF_0_1)
    if replicas < 0:
        raise CommandError(messages.NOT_POSITIVE)
    timeout = parse_timeout(argv[3], ctx.now) if ctx.retry is None else 0
    if local and not durability.logging:
        raise CommandError(messages.WAITAOF_NO_LOG)
    if ctx.retry is not None:
        log_offset, replication_offset = map(int, argv[3].split(b":"))
    else:
        log_offset, replication_offset = durability.log_offset(), replication.offset(within=ctx.session.in_exec)
    safe = int(durability.logging and durability.is_synced(log_offset))
    there = replication.acknowledged(replication_offset, on_disk=True)
    if safe >= local and there >= replicas:
        return [safe, there]
    if ctx.retry is not None:
        ctx.retry.on_timeout = [safe, there]
    if not ctx.session.in_exec:
        durability.wake_when_synced(ctx.session)
        if replicas:
            replication.wake_when_acknowledged(ctx.session, again=ctx.retry is not None)
    again = [*argv[:3], b"%d:%d" % (log_offset, replication_offset)]
    return ctx.block(again, [], timeout, on_timeout=[safe, there])
