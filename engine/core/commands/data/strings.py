"""Strings: SET, GET and their variants, and strings as 64-bit integers.

A string is ``bytes``, also if it is a number. The log receives a time since the epoch for an expiry, so that a replay
at any time gives the same keys.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import xxhash

from engine.core.commands.data.expiry import TIME_SYNTAX, TimeOption, expire_key, persist_key
from engine.core.commands.data.keys import counted
from engine.core.commands.families import string_command
from engine.core.protocol import pace
from engine.core.protocol.args import I64_MAX, I64_MIN, Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Reply, paged
from engine.core.table.registry import ALL_KEYS, Keys
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Options of SET with a condition on the current string or its digest, each with its result for a missing key.
_CONDITIONS = {b"IFEQ": False, b"IFNE": True, b"IFDEQ": False, b"IFDNE": True}
#: Length of a digest: a 64-bit XXH3 as hexadecimal digits, as in Redis.
_DIGITS = 16


def _string(ctx: Context, key: bytes) -> bytes | None:
    """Return the string at ``key`` for a change."""
    value: bytes | None = ctx.db.typed(key, bytes)
    return value


def _read(ctx: Context, key: bytes) -> bytes | None:
    """Return the string at ``key`` for a reply."""
    value: bytes | None = ctx.db.read_typed(key, bytes)
    return value


def _set_string(ctx: Context, key: bytes, value: bytes, event: bytes = b"set", *, keep_ttl: bool = False) -> None:
    """Set a string, replacing a value of any type. Record the event, but no effect."""
    former = ctx.db.set(key, value, keep_ttl)
    if ctx.changes.on_event is not None:
        if event == b"set":
            ctx.db.report_overwritten(key, former, value)
        ctx.changes.notify("$", event, key, ctx.db.index)


def _set_until(ctx: Context, key: bytes, value: bytes, deadline: int | None) -> None:
    """Set a string and its deadline, if any. Record the effect and the events."""
    _set_string(ctx, key, value)
    if deadline is None:
        ctx.effect(b"SET", key, value)
        return
    ctx.db.set_deadline(key, deadline)
    ctx.changes.notify("g", b"expire", key, ctx.db.index)
    ctx.effect(b"SET", key, value, b"PXAT", b"%d" % deadline)


# -- SET and its variants --------------------------------------------------------------------------------------------


@string_command(
    f"set key value [NX|XX|IFEQ value|IFNE value|IFDEQ digest|IFDNE digest] [GET] [{TIME_SYNTAX}|KEEPTTL]",
    "write denyoom",
    access="RW access update variable_flags",
)
def set_(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string, replacing a value of any type; with a condition, only if it is met.

    With GET, returns the previous string.
    """
    key, value = argv[1], argv[2]
    if len(argv) == 3:
        _set_string(ctx, key, value)
        if ctx.changes.recording:
            ctx.effect(b"SET", key, value)
        return OK
    args = Args(argv, 3)
    exists: bool | None = None
    get = False
    time = TimeOption()
    condition, wanted = b"", b""
    while len(args):
        word = args.peek()
        if word in {b"NX", b"XX"} and exists is not (word == b"NX"):
            exists = word == b"XX"
            args.take()
        elif word == b"GET":
            get = True
            args.take()
        elif word in _CONDITIONS and exists is None and condition in {b"", word} and args.option(word):
            condition, wanted = word, args.take()
        elif not time.parse(args, b"KEEPTTL"):
            raise CommandError(messages.SYNTAX)
    deadline = time.deadline(ctx, b"set")
    old = _read(ctx, key) if get else None
    if exists is not None and exists is not (ctx.db.get(key) is not None):
        return old
    if condition and not _is_met(condition, wanted, _string(ctx, key)):
        return old
    if time.keeps:
        _set_string(ctx, key, value, keep_ttl=True)
        ctx.effect(b"SET", key, value, b"KEEPTTL")
    else:
        _set_until(ctx, key, value, deadline)
    return old if get else OK


def _is_met(condition: bytes, wanted: bytes, value: bytes | None) -> bool:
    """Return whether ``value`` (None: the key is missing) meets a condition."""
    if value is None:
        return _CONDITIONS[condition]
    if condition in (b"IFEQ", b"IFNE"):
        return (value == wanted) is (condition == b"IFEQ")
    if len(wanted) != _DIGITS:
        raise CommandError(b"ERR must be exactly 16 hexadecimal characters")
    return (xxhash.xxh3_64_hexdigest(value).encode() == wanted.lower()) is (condition == b"IFDEQ")


@string_command("setnx key value", "write denyoom fast", access="OW insert")
def setnx(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string unless the key exists."""
    if ctx.db.get(argv[1]) is not None:
        return 0
    _set_until(ctx, argv[1], argv[2], None)
    return 1


@string_command("getset key value", "write denyoom fast", access="RW access update")
def getset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string and returns the previous one."""
    old = _read(ctx, argv[1])
    _set_until(ctx, argv[1], argv[2], None)
    return old


@string_command(
    "mset key value [key value ...]",
    "write denyoom",
    keys=Keys(1, -1, 2),
    access="OW update",
)
def mset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets several strings at once."""
    if len(argv) % 2 == 0:
        raise CommandError(messages.wrong_arity(argv[0].lower()))
    if len(argv) > pace.MANY_ARGUMENTS:
        return counted(ctx, argv, 1, _put_strings, reply=OK)
    _put_strings(ctx, argv)
    return OK


def _put_strings(ctx: Context, argv: list[bytes]) -> int:
    for key, value in zip(argv[1::2], argv[2::2], strict=True):
        _set_string(ctx, key, value)
    if ctx.changes.recording:
        ctx.effect(b"MSET", *argv[1:])
    return len(argv) // 2


@string_command(
    "append key value",
    "write denyoom fast",
    access="RW insert",
)
def append(ctx: Context, argv: list[bytes]) -> Reply:
    """Appends to the string at a key, and returns its new length."""
    key, more = argv[1], argv[2]
    value = _string(ctx, key)
    if value is None:
        value = more
        ctx.db.add(key, value)
    else:
        if len(value) + len(more) > ctx.config.integer("proto-max-bulk-len"):
            raise CommandError(b"ERR string exceeds maximum allowed size (proto-max-bulk-len)")
        value += more
        ctx.db.set(key, value, keep_ttl=True)
    ctx.changes.notify("$", b"append", key, ctx.db.index)
    ctx.effect(b"APPEND", key, more)
    return len(value)


# -- GET and its variants --------------------------------------------------------------------------------------------


@string_command("get key", "readonly fast")
def get(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key."""
    return ctx.db.read_typed(argv[1], bytes)


@string_command("strlen key", "readonly fast", access="RO")
def strlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of the string at a key."""
    return len(_read(ctx, argv[1]) or b"")


@string_command("mget key [key ...]", "readonly fast", keys=ALL_KEYS)
def mget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the strings at several keys, nil for a key without a string."""

    def work() -> Generator[None, None, Reply]:
        found: list[Reply] = []
        for at in range(1, len(argv), pace.NAMES):
            if at > 1:
                yield
            found += _strings(ctx, argv[at : at + pace.NAMES])
        return paged(found)

    return ctx.in_steps(argv, work())


def _strings(ctx: Context, keys: list[bytes]) -> list[Reply]:
    found = map(ctx.db.read, keys)
    return [value if type(value) is bytes else None for value in found]


@string_command("getdel key", "write fast", access="RW access delete")
def getdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key and deletes the key."""
    value = _read(ctx, argv[1])
    if value is not None:
        ctx.db.delete(argv[1])
        ctx.changes.notify("g", b"del", argv[1], ctx.db.index)
        ctx.effect(b"DEL", argv[1])
    return value


@string_command(f"getex key [{TIME_SYNTAX}|PERSIST]", "write fast", access="RW access update")
def getex(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key; with an option, changes the key's expiry."""
    key = argv[1]
    args = Args(argv, 2)
    time = TimeOption()
    while len(args):
        if not time.parse(args, b"PERSIST"):
            raise CommandError(messages.SYNTAX)
    value = _read(ctx, key)
    if value is None:
        return None
    deadline = time.deadline(ctx, b"getex")
    if deadline is not None:
        expire_key(ctx, key, deadline)
    elif time.keeps:
        persist_key(ctx, key)
    return value


# -- integers ---------------------------------------------------------------------------------------------------------


def _increment(ctx: Context, key: bytes, by: int) -> int:
    value = _string(ctx, key)
    result = (0 if value is None else parse_int(value)) + by
    if not I64_MIN <= result <= I64_MAX:
        raise CommandError(messages.OVERFLOW)
    _set_string(ctx, key, b"%d" % result, b"incrby", keep_ttl=True)
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
        raise CommandError(b"ERR decrement would overflow")
    return _increment(ctx, argv[1], -by)
