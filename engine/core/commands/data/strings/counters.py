"""Strings as 64-bit integers: INCR and its variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.data.strings.values import checked, set_string
from engine.core.commands.families import string_command
from engine.core.protocol.args import I64_MAX, I64_MIN, parse_int
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import data

if TYPE_CHECKING:
    from engine.core.environment.context import Context


def _increment(ctx: Context, key: bytes, by: int) -> int:
    value = ctx.db.get(key)
    if type(value) is not bytes:
        value = b"0" if value is None else bytes(checked(value) or b"")
    result = parse_int(value) + by
    if not I64_MIN <= result <= I64_MAX:
        raise CommandError(data.OVERFLOW)
    set_string(ctx, key, b"%d" % result, b"incrby", keep_ttl=True)
    if ctx.changes.recording:
        ctx.effect(b"INCRBY", key, b"%d" % by)
    return result


@string_command("incr key", "write denyoom fast", access="RW access update")
def incr(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the integer at a key by one."""
    return _increment(ctx, argv[1], 1)


@string_command("decr key", "write denyoom fast", access="RW access update")
def decr(ctx: Context, argv: list[bytes]) -> Reply:
    """Decrements the integer at a key by one."""
    return _increment(ctx, argv[1], -1)


@string_command("incrby key increment", "write denyoom fast", access="RW access update")
def incrby(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the integer at a key."""
    return _increment(ctx, argv[1], parse_int(argv[2]))


@string_command("decrby key decrement", "write denyoom fast", access="RW access update")
def decrby(ctx: Context, argv: list[bytes]) -> Reply:
    """Decrements the integer at a key."""
    by = parse_int(argv[2])
    if by == I64_MIN:
        raise CommandError(data.DECREMENT_OVERFLOW)
    return _increment(ctx, argv[1], -by)
