"""MULTI, EXEC, PS.EXEC, DISCARD, WATCH and UNWATCH. The keyspace records changes of watched keys.

Dispatch queues the commands of a transaction, which run one after another. Blocked clients are served after the last
command. If the transaction has several effects, ``engine.core.dispatch`` encloses them in MULTI and EXEC for the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.core.commands.families import transaction_command
from engine.core.protocol import pace
from engine.core.protocol.replies import NIL_ARRAY, OK, Array, CommandError, Pages, Reply, Several, held_by
from engine.core.table.registry import ALL_KEYS

if TYPE_CHECKING:
    from engine.core.clients.session import Queued, Session
    from engine.core.environment.context import Context


def discard_transaction(ctx: Context, session: Session) -> None:
    """Leave the transaction and stop watching."""
    session.multi = None
    session.multi_failed = False
    ctx.changes.unwatch(session)


@transaction_command("multi")
def multi(ctx: Context, argv: list[bytes]) -> Reply:
    """Starts a transaction: commands are queued until EXEC."""
    if ctx.session.multi is not None:
        raise CommandError(b"ERR MULTI calls can not be nested")
    ctx.session.multi = []
    return OK


@transaction_command("exec", "loading stale skip_slowlog")
def exec_(ctx: Context, argv: list[bytes]) -> Reply:
    """Runs the commands queued since MULTI, unless a watched key has changed."""
    return _execute(ctx, stops=False)


@transaction_command("ps.exec", "loading stale skip_slowlog")
def ps_exec(ctx: Context, argv: list[bytes]) -> Reply:
    """Runs the commands queued since MULTI until one fails, unless a watched key has changed.

    The reply ends with the error of the command that failed. The effects of earlier commands remain.
    """
    return _execute(ctx, stops=True)


def _execute(ctx: Context, *, stops: bool) -> Reply:
    """Run the queued commands; with ``stops``, until one fails."""
    session = ctx.session
    queued = session.multi
    if queued is None:
        raise CommandError(b"ERR EXEC without MULTI")
    for index, key in list(session.watching):
        # A key that has expired has changed.
        ctx.databases[index].drop_if_due(key)
    failed, dirty = session.multi_failed, session.dirty_exec
    discard_transaction(ctx, session)
    if failed:
        raise CommandError(b"EXECABORT Transaction discarded because of previous errors.")
    if dirty:
        return NIL_ARRAY
    session.in_exec = True
    try:
        replies = Array()
        for call in _each(queued) if stops else queued:
            replies += ctx.run_queued(session, call)
            if stops and isinstance(replies[-1], CommandError):
                break
        return _in_pages(replies) if len(replies) > pace.MANY_WORDS or Pages in map(type, replies) else replies
    finally:
        session.in_exec = False


def _each(queued: list[Queued]) -> Iterator[Queued]:
    """Yield the queued commands one by one, also those of runs of XADDs."""
    for command, words in queued:
        if isinstance(words, list):
            yield command, words
        else:
            yield from ((command, argv) for argv in words.commands())


def _in_pages(replies: Array) -> Pages:
    size = sum(reply.count if type(reply) is Several else 1 for reply in replies)
    return Pages(
        list,
        size,
        (replies[at : at + pace.PAGE_ROWS] for at in range(0, len(replies), pace.PAGE_ROWS)),
        held_by(replies),
    )


@transaction_command("discard")
def discard(ctx: Context, argv: list[bytes]) -> Reply:
    """Discards the commands queued since MULTI."""
    if ctx.session.multi is None:
        raise CommandError(b"ERR DISCARD without MULTI")
    discard_transaction(ctx, ctx.session)
    return OK


@transaction_command("watch key [key ...]", keys=ALL_KEYS, access="RO")
def watch(ctx: Context, argv: list[bytes]) -> Reply:
    """Makes the next EXEC discard its commands if one of the keys has changed by then."""
    session, db = ctx.session, ctx.db
    if session.multi is not None:
        raise CommandError(b"ERR WATCH inside MULTI is not allowed")
    for key in argv[1:]:
        # A key that has expired before is no change later.
        db.drop_if_due(key)
        ctx.changes.watch(session, db.index, key)
    return OK


@transaction_command("unwatch")
def unwatch(ctx: Context, argv: list[bytes]) -> Reply:
    """Stops watching all keys."""
    ctx.changes.unwatch(ctx.session)
    return OK
