"""Shared effects of changes to a list, a set, a sorted set or a hash: notifications, and deletion of empty keys.

``kind`` is the letter of the type in ``notify-keyspace-events``. Only ``delete_whole`` records an effect for the log.
Callers of the other functions record their effects themselves.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.core.environment.context import Context


def changed(ctx: Context, kind: str, event: bytes, key: bytes, value: Sized, changes: int) -> None:
    """Count changed elements, notify watchers and subscribers, and delete the key if its value is empty."""
    ctx.db.changed(key, kind, event, changes)
    if not value:
        drop_key(ctx, key)


def drop_key(ctx: Context, key: bytes) -> None:
    """Delete a key and notify subscribers. The caller must already have counted the elements as removed."""
    ctx.db.delete(key, 0)
    if ctx.changes.on_event is not None:
        ctx.changes.notify("g", b"del", key, ctx.db.index)


def delete_whole(ctx: Context, kind: str, event: bytes, key: bytes, value: Sized) -> None:
    """Remove all elements of a value at once: count them, delete the key, and log the deletion."""
    ctx.db.changed(key, kind, event, len(value))
    drop_key(ctx, key)
    ctx.effect(b"DEL", key)


def put_result(ctx: Context, kind: str, event: bytes, key: bytes, result: Sized) -> bool:
    """Store a result at the key, or delete the key if the result is empty; return whether anything changed."""
    db = ctx.db
    if result:
        db.report_overwritten(key, db.set(key, result), result)
        ctx.changes.notify(kind, event, key, db.index)
        return True
    if db.delete(key):
        ctx.changes.notify("g", b"del", key, db.index)
        return True
    return False
