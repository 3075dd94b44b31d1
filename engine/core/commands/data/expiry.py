"""EXPIRE and its kin, TTL and its kin, PERSIST. When a key has expired it is gone for every lookup, see the keyspace.

The log gets absolute times in milliseconds, so that a replay at any moment gives the same keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.families import key_command
from engine.core.protocol.args import I64_MAX, Args
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import data

if TYPE_CHECKING:
    from engine.core.environment.context import Context

_CONDITIONS = (b"NX", b"XX", b"GT", b"LT")
_EXPIRE_SYNTAX = "[NX|XX|GT|LT]"


def positive_deadline(ctx: Context, command_name: bytes, amount: int, *, seconds: bool, absolute: bool) -> int:
    """The deadline that an option like EX asks for, in milliseconds; only a positive amount will do."""
    error = CommandError(data.invalid_expire(command_name))
    if amount <= 0 or (seconds and amount > I64_MAX // 1000):
        raise error
    deadline = amount * 1000 if seconds else amount
    if not absolute:
        deadline += ctx.now
    if deadline > I64_MAX:
        raise error
    return deadline


def is_past(ctx: Context, deadline: int) -> bool:
    """Whether a key with this deadline goes at once."""
    return deadline <= ctx.now and not ctx.changes.replaying


def expire_key(ctx: Context, key: bytes, deadline: int) -> None:
    """Let an existing key expire then, at once if that is in the past; the log and the listeners hear of it."""
    if is_past(ctx, deadline):
        ctx.db.delete(key)
        ctx.effect(b"DEL", key)
        ctx.changes.notify("g", b"del", key, ctx.db.index)
        return
    ctx.db.set_deadline(key, deadline)
    ctx.db.touch(key)
    ctx.effect(b"PEXPIREAT", key, b"%d" % deadline)
    ctx.changes.notify("g", b"expire", key, ctx.db.index)


def persist_key(ctx: Context, key: bytes) -> bool:
    """Let an existing key live for ever; whether it had a deadline."""
    if ctx.db.deadline(key) is None:
        return False
    ctx.db.set_deadline(key, None)
    ctx.db.touch(key)
    ctx.effect(b"PERSIST", key)
    ctx.changes.notify("g", b"persist", key, ctx.db.index)
    return True


def _conditions(argv: list[bytes]) -> set[bytes]:
    chosen = set()
    for word in argv[3:]:
        if word.upper() not in _CONDITIONS:
            raise CommandError(data.unsupported_option(word))
        chosen.add(word.upper())
    if b"NX" in chosen and len(chosen) > 1:
        raise CommandError(data.EXPIRE_NX)
    if {b"GT", b"LT"} <= chosen:
        raise CommandError(data.EXPIRE_GT_LT)
    return chosen


def _expire(ctx: Context, argv: list[bytes], *, seconds: bool, absolute: bool) -> int:
    conditions = _conditions(argv)
    key = argv[1]
    when = Args(argv, 2).take_int()
    base = 0 if absolute else ctx.now
    limit = I64_MAX // 1000 * 1000
    if seconds:
        when *= 1000
    if when > I64_MAX - base or (seconds and not -limit <= when <= limit):
        raise CommandError(data.invalid_expire(argv[0].lower()))
    deadline = when + base
    if ctx.db.get(key) is None:
        return 0
    current = ctx.db.deadline(key)
    if (
        (b"NX" in conditions and current is not None)
        or (b"XX" in conditions and current is None)
        or (b"GT" in conditions and (current is None or deadline <= current))
        or (b"LT" in conditions and current is not None and deadline >= current)
    ):
        return 0
    expire_key(ctx, key, deadline)
    return 1


@key_command(f"expire key seconds {_EXPIRE_SYNTAX}", "write fast")
def expire(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a key's time to live in seconds."""
    return _expire(ctx, argv, seconds=True, absolute=False)


@key_command(f"pexpire key milliseconds {_EXPIRE_SYNTAX}", "write fast", since="2.6.0")
def pexpire(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a key's time to live in milliseconds."""
    return _expire(ctx, argv, seconds=False, absolute=False)


@key_command(f"expireat key unix-time-seconds {_EXPIRE_SYNTAX}", "write fast", since="1.2.0")
def expireat(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets the time at which a key expires, in seconds since the epoch."""
    return _expire(ctx, argv, seconds=True, absolute=True)


@key_command(f"pexpireat key unix-time-milliseconds {_EXPIRE_SYNTAX}", "write fast", since="2.6.0")
def pexpireat(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets the time at which a key expires, in milliseconds since the epoch."""
    return _expire(ctx, argv, seconds=False, absolute=True)


def _time(ctx: Context, argv: list[bytes], *, seconds: bool, absolute: bool) -> int:
    key = argv[1]
    if ctx.db.read(key, use=False) is None:
        return -2
    deadline = ctx.db.deadline(key)
    if deadline is None:
        return -1
    shown = deadline if absolute else max(deadline - ctx.now, 0)
    return (shown + 500) // 1000 if seconds else shown


@key_command("ttl key", "readonly fast")
def ttl(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a key's time to live in seconds; -1 without expiry, -2 without the key."""
    return _time(ctx, argv, seconds=True, absolute=False)


@key_command("pttl key", "readonly fast", since="2.6.0")
def pttl(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a key's time to live in milliseconds; -1 without expiry, -2 without the key."""
    return _time(ctx, argv, seconds=False, absolute=False)


@key_command("expiretime key", "readonly fast", since="7.0.0")
def expiretime(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the time at which a key expires, in seconds since the epoch."""
    return _time(ctx, argv, seconds=True, absolute=True)


@key_command("pexpiretime key", "readonly fast", since="7.0.0")
def pexpiretime(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the time at which a key expires, in milliseconds since the epoch."""
    return _time(ctx, argv, seconds=False, absolute=True)


@key_command("persist key", "write fast", since="2.2.0")
def persist(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes a key's expiry."""
    return int(ctx.db.get(argv[1]) is not None and persist_key(ctx, argv[1]))
