"""Replicas, masters and files: REPLCONF, PSYNC, SYNC, WAIT, ROLE, REPLICAOF, FAILOVER, SAVE and others.

``engine.core.dispatch.Core.replication`` and ``Core.durability`` do the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.clients.session import AsReplica
from engine.core.commands.families import generic_command, server_command
from engine.core.protocol.args import Args, parse_int, parse_timeout
from engine.core.protocol.replies import NO_REPLY, OK, CommandError, Reply
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@server_command("save", "admin no_async_loading no_multi")
def save(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes a snapshot, and blocks all clients until it is on disk."""
    return ctx.durability.save()


@server_command("bgsave [SCHEDULE]", "admin no_async_loading")
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


@server_command("bgrewriteaof", "admin no_async_loading")
def bgrewriteaof(ctx: Context, argv: list[bytes]) -> Reply:
    """Starts to compact the append-only file in the background."""
    return ctx.durability.rewrite_log(within=ctx.session.in_exec)


# -- as a master ------------------------------------------------------------------------------------------------------


@server_command("replconf [option value ...]", "admin loading stale", arity=-1)
def replconf(ctx: Context, argv: list[bytes]) -> Reply:
    """Configures the replication link: replicas announce their capabilities and their offset."""
    if len(argv) % 2 == 0:
        raise CommandError(messages.SYNTAX)
    first = argv[1].lower() if len(argv) > 1 else b""
    if first == b"ack":
        ctx.replication.acknowledge(ctx.session, parse_int(argv[2]))
        return NO_REPLY
    if first == b"getack":
        ctx.replication.tell_master()
        return NO_REPLY
    replica = ctx.session.as_replica = ctx.session.as_replica or AsReplica()
    for option, value in zip(argv[1::2], argv[2::2], strict=True):
        _configure(replica, option, value)
    return OK


def _configure(replica: AsReplica, option: bytes, value: bytes) -> None:
    match option.lower():
        case b"listening-port":
            replica.port = parse_int(value)
        case b"ip-address":
            replica.address = value
        case b"capa":
            replica.capabilities |= {value.lower()}
        case b"version":
            pass
        case b"rdb-only":
            replica.rdb_only = parse_int(value) == 1
        case _:
            raise CommandError(b"ERR Unrecognized REPLCONF option: " + option)


@server_command("psync replicationid offset", "admin no_async_loading no_multi", arity=-3)
def psync(ctx: Context, argv: list[bytes]) -> Reply:
    """Makes the connection a replica, which receives missing data and then all writes."""
    hands_over = len(argv) > 3 and argv[3].upper() == b"FAILOVER"
    ctx.replication.synchronise(ctx.session, argv[1], parse_int(argv[2]), hands_over=hands_over)
    return NO_REPLY


@server_command("sync", "admin no_async_loading no_multi")
def sync(ctx: Context, argv: list[bytes]) -> Reply:
    """Makes the connection a replica without partial resynchronization: it receives all data and then all writes."""
    ctx.replication.synchronise(ctx.session, b"", -1)
    return NO_REPLY


@generic_command("wait numreplicas timeout", "blocking")
def wait(ctx: Context, argv: list[bytes]) -> Reply:
    """Waits until a number of replicas have all earlier writes, and returns how many replicas have them.

    When a blocked command runs again, ``argv[2]`` is no longer the timeout but the awaited replication offset.
    """
    replication = ctx.replication
    if replication.follows:
        raise CommandError(messages.WAIT_ON_REPLICA)
    replicas = parse_int(argv[1])
    timeout = parse_timeout(argv[2], ctx.now) if ctx.retry is None else 0
    offset = int(argv[2]) if ctx.retry is not None else replication.offset(within=ctx.session.in_exec)
    count = replication.acknowledged(offset)
    if count >= replicas:
        return count
    if ctx.retry is not None:
        ctx.retry.on_timeout = count
    if not ctx.session.in_exec:
        replication.wake_when_acknowledged(ctx.session, again=ctx.retry is not None)
    return ctx.block([*argv[:2], b"%d" % offset], [], timeout, on_timeout=count)


# -- as a replica -----------------------------------------------------------------------------------------------------

#: Maximum number of digits of a port, including leading zeros.
_PORT_DIGITS = 20


def _replicaof(ctx: Context, argv: list[bytes]) -> Reply:
    """Follows another server; with NO ONE, stops following."""
    host, port = argv[1], argv[2]
    ctx.divided.finish_all()
    if (host.lower(), port.lower()) == (b"no", b"one"):
        return ctx.replication.lead()
    if not port.isdigit() or len(port) > _PORT_DIGITS or int(port) > 65535:
        raise CommandError(b"ERR Invalid master port")
    return ctx.replication.follow(host, int(port))


for _name in ("replicaof", "slaveof"):
    server_command(f"{_name} <host port | NO ONE>", "admin stale no_async_loading")(_replicaof)


@server_command("failover [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]", "admin stale")
def failover(ctx: Context, argv: list[bytes]) -> Reply:
    """Pauses writes until a replica is up to date, makes it the master, and becomes its replica. ABORT cancels this."""
    args = Args(argv)
    if len(argv) == 2 and args.flag(b"ABORT"):
        ctx.replication.abort_failover()
        return OK
    target: tuple[bytes, int] | None = None
    timeout, force = 0, False
    while args:
        if target is None and args.flag(b"TO"):
            target = args.take(), args.take_int()
        elif not timeout and args.flag(b"TIMEOUT"):
            timeout = args.take_int()
            if timeout <= 0:
                raise CommandError(b"ERR FAILOVER timeout must be greater than 0")
        elif not force and args.flag(b"FORCE"):
            force = True
        else:
            raise CommandError(messages.SYNTAX)
    ctx.replication.fail_over(target, timeout, force=force)
    return OK


# -- both -------------------------------------------------------------------------------------------------------------


@server_command("role", "loading stale fast", acl="admin dangerous")
def role(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the server's role and its replication peers."""
    return ctx.replication.role()
