"""Strings as sequences of bytes: their length, and changes in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.data.strings.values import String, checked, string_at
from engine.core.commands.families import string_command
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import data

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@string_command("strlen key", "readonly fast", access="RO", since="2.2.0")
def strlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of the string at a key."""
    return len(checked(ctx.db.read(argv[1])) or b"")


def _check_length(ctx: Context, length: int) -> None:
    if length > ctx.config.integer("proto-max-bulk-len"):
        raise CommandError(data.STRING_TOO_LONG)


def _raw(ctx: Context, key: bytes, value: String) -> bytearray:
    """Return the value at ``key`` as a bytearray. If the stored value is immutable, replace it with the bytearray."""
    if isinstance(value, bytearray):
        return value
    raw = bytearray(value)
    ctx.db.set(key, raw, keep_ttl=True, changes=0)
    return raw


@string_command(
    "append key value",
    "write denyoom fast",
    access="RW insert",
    since="2.0.0",
    complexity="O(length of the appended string)",
)
def append(ctx: Context, argv: list[bytes]) -> Reply:
    """Appends to the string at a key, and returns its new length."""
    key, more = argv[1], argv[2]
    value = string_at(ctx, key)
    if value is None:
        ctx.db.add(key, more)
        length = len(more)
    else:
        _check_length(ctx, len(value) + len(more))
        raw = _raw(ctx, key, value)
        raw += more
        ctx.db.touch(key)
        length = len(raw)
    ctx.changes.notify("$", b"append", key, ctx.db.index)
    ctx.effect(b"APPEND", key, more)
    return length
