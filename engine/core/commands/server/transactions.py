"""MULTI, EXEC, DISCARD, WATCH, UNWATCH. Queueing itself is dispatch's; a change of a watched key is noted by the
keyspace.

The commands of a transaction run one after another in one call; who waits is served after the last one, and what they
did is one MULTI ... EXEC for the log, because :meth:`engine.core.dispatch.Core.execute` seals the effects of a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.protocol.replies import NIL_ARRAY, OK, Array, CommandError, Reply
from engine.core.table.registry import ALL_KEYS, command
from engine.text.messages import clients

if TYPE_CHECKING:
    from engine.core.clients.session import Session
    from engine.core.environment.context import Context


def discard_transaction(ctx: Context, session: Session) -> None:
    """The session is outside a transaction from now on, and watches nothing."""
    session.multi = None
    session.multi_failed = False
    ctx.changes.unwatch(session)


@command(
    "multi",
    arity=1,
    flags="noscript loading stale fast allow_busy",
    group="transactions",
    since="1.2.0",
    acl="transaction",
    summary="Begin a transaction: commands are queued until EXEC.",
)
def multi(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    if ctx.session.multi is not None:
        raise CommandError(clients.MULTI_NESTED)
    ctx.session.multi = []
    return OK


@command(
    "exec",
    arity=1,
    flags="noscript loading stale skip_slowlog",
    group="transactions",
    since="1.2.0",
    acl="transaction",
    summary="Run what was queued since MULTI, unless a watched key has changed.",
    complexity="Depends on the commands queued.",
)
def exec_(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    session = ctx.session
    queued = session.multi
    if queued is None:
        raise CommandError(clients.EXEC_WITHOUT_MULTI)
    expired = any(ctx.databases[index].is_due(key) for (index, key), before in session.watching.items() if not before)
    failed, dirty = session.multi_failed, session.dirty_exec or expired
    discard_transaction(ctx, session)
    if failed:
        raise CommandError(clients.EXEC_ABORT)
    if dirty:
        return NIL_ARRAY
    session.in_exec = True
    try:
        replies = Array()
        for one in queued:
            replies += ctx.run_queued(session, one)
        return replies
    finally:
        session.in_exec = False


@command(
    "discard",
    arity=1,
    flags="noscript loading stale fast allow_busy",
    group="transactions",
    since="2.0.0",
    acl="transaction",
    summary="Forget what was queued since MULTI.",
)
def discard(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    if ctx.session.multi is None:
        raise CommandError(clients.DISCARD_WITHOUT_MULTI)
    discard_transaction(ctx, ctx.session)
    return OK


@command(
    "watch",
    arity=-2,
    flags="noscript loading stale fast allow_busy",
    keys=ALL_KEYS,
    access="RO",
    group="transactions",
    since="2.2.0",
    acl="transaction",
    summary="Let the next EXEC fail if one of the keys changes until then.",
    complexity="O(keys)",
    syntax="key [key ...]",
)
def watch(ctx: Context, argv: list[bytes]) -> Reply:
    session, db = ctx.session, ctx.db
    if session.multi is not None:
        raise CommandError(clients.WATCH_IN_MULTI)
    for key in argv[1:]:
        ctx.changes.watch(session, db.index, key, expired=db.is_due(key))
    return OK


@command(
    "unwatch",
    arity=1,
    flags="noscript loading stale fast allow_busy",
    group="transactions",
    since="2.2.0",
    acl="transaction",
    summary="Watch no key any more.",
)
def unwatch(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    ctx.changes.unwatch(ctx.session)
    return OK
