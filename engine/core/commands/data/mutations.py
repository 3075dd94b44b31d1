"""What commands that change a list, a set, a sorted set or a hash have in common: who is told, and when the key goes.

``kind`` is the letter of the type in ``notify-keyspace-events``. The command in the log is left to the caller, except
where a value is deleted whole.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.core.environment.context import Context


def changed(ctx: Context, kind: str, event: bytes, key: bytes, value: Sized, changes: int) -> None:
    """Count changed elements, tell watchers and subscribers, and delete the key if its value is empty."""
    ctx.db.touch(key, changes)
    ctx.changes.notify(kind, event, key, ctx.db.index)
    if not value:
        drop_key(ctx, key)


def drop_key(ctx: Context, key: bytes) -> None:
    """Delete a key whose elements are counted as removed already, and tell subscribers."""
    ctx.db.delete(key, changes=0)
    ctx.changes.notify("g", b"del", key, ctx.db.index)


def delete_whole(ctx: Context, kind: str, event: bytes, key: bytes, value: Sized) -> None:
    """All elements are removed at once: the key is deleted, and the log says so."""
    ctx.db.touch(key, len(value))
    ctx.changes.notify(kind, event, key, ctx.db.index)
    drop_key(ctx, key)
    ctx.effect(b"DEL", key)


def put_result(ctx: Context, kind: str, event: bytes, key: bytes, result: Sized) -> bool:
    """Let the key hold a result, or nothing if it is empty; whether that changed anything."""
    db = ctx.db
    if result:
        db.set(key, result)
        ctx.changes.notify(kind, event, key, db.index)
        return True
    if db.delete(key):
        ctx.changes.notify("g", b"del", key, db.index)
        return True
    return False
