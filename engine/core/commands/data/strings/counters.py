"""Strings as numbers: INCR and its variants, for 64-bit integers and for floating-point numbers.

The log receives the result of INCRBYFLOAT, so that a replay does not repeat the addition.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from engine.core.commands.data.strings.values import checked, set_string, string_at
from engine.core.commands.families import string_command
from engine.core.protocol.args import I64_MAX, I64_MIN, parse_int
from engine.core.protocol.replies import CommandError, Reply
from engine.text import longdouble
from engine.text.messages import data, general

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


def sum_of_floats(first: Fraction | None, second: Fraction | None, error: bytes) -> Fraction:
    """Return the rounded sum. Raise ``error`` if an argument is None, and another error if the sum is not finite."""
    if first is None or second is None:
        raise CommandError(error)
    result = longdouble.rounded(first + second)
    if not longdouble.fits(result):
        raise CommandError(data.NOT_FINITE)
    return result


@string_command("incrbyfloat key increment", "write denyoom fast", access="RW access update", since="2.6.0")
def incrbyfloat(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the floating-point number at a key."""
    key = argv[1]
    value = string_at(ctx, key)
    infinite = False
    numbers = []
    for word in (b"0" if value is None else bytes(value), argv[2]):
        try:
            numbers.append(longdouble.parse(word))
        except longdouble.InfiniteError:
            infinite = True
            continue
        if numbers[-1] is None:
            raise CommandError(general.NOT_A_FLOAT)
    if infinite:
        raise CommandError(data.NOT_FINITE)
    result = longdouble.text(sum_of_floats(numbers[0], numbers[1], general.NOT_A_FLOAT))
    set_string(ctx, key, result, b"incrbyfloat", keep_ttl=True)
    ctx.effect(b"SET", key, result, b"KEEPTTL")
    return result
