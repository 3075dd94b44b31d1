"""Strings: plain bytes, or a bytearray once APPEND or SETRANGE has been at work (a string that Redis calls raw).

The log gets results, not requests, where a request depends on the clock or on the machine's floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.data.expiry import expire_key, is_past, persist_key, positive_deadline
from engine.core.protocol.args import I64_MAX, I64_MIN, Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.core.table.registry import ALL_KEYS, ONE_KEY, Keys, command
from engine.text import longdouble
from engine.text.messages import data, general

if TYPE_CHECKING:
    from fractions import Fraction

    from engine.core.environment.context import Context

String = bytes | bytearray

#: Options with a time: (in seconds, since the epoch).
_TIMES = {b"EX": (True, False), b"PX": (False, False), b"EXAT": (True, True), b"PXAT": (False, True)}
_PAIRS = Keys(1, -1, 2)
_TIME_SYNTAX = "EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds"


def _checked(value: object) -> String | None:
    if value is None or isinstance(value, bytes | bytearray):
        return value
    raise CommandError(general.WRONG_TYPE)


def _string(ctx: Context, key: bytes) -> String | None:
    """The string at ``key`` as it is kept."""
    return _checked(ctx.db.get(key))


def _read(ctx: Context, key: bytes) -> bytes | None:
    """The string at ``key`` for a reply."""
    value = ctx.db.read(key)
    if value is None or type(value) is bytes:
        return value
    checked = _checked(value)
    return None if checked is None else bytes(checked)


def _set(ctx: Context, key: bytes, value: bytes, event: bytes = b"set", *, keep_ttl: bool = False) -> None:
    ctx.db.set(key, value, keep_ttl=keep_ttl)
    ctx.changes.notify("$", event, key, ctx.db.index)


def _set_until(ctx: Context, key: bytes, value: bytes, deadline: int | None) -> None:
    """Set a key, perhaps with an expiry, and tell everybody."""
    _set(ctx, key, value)
    if deadline is None:
        ctx.effect(b"SET", key, value)
        return
    ctx.db.set_deadline(key, deadline)
    ctx.changes.notify("g", b"expire", key, ctx.db.index)
    ctx.effect(b"SET", key, value, b"PXAT", b"%d" % deadline)


# -- SET and its kin ------------------------------------------------------------------------------------------------


@command(
    "set",
    arity=-3,
    flags="write denyoom",
    keys=ONE_KEY,
    access="RW access update variable_flags",
    group="string",
    acl="string",
    summary="Set a string, whatever the key held.",
    syntax=f"key value [NX|XX] [GET] [{_TIME_SYNTAX}|KEEPTTL]",
)
def set_(ctx: Context, argv: list[bytes]) -> Reply:
    key, value = argv[1], argv[2]
    if len(argv) == 3:
        _set_until(ctx, key, value, None)
        return OK
    args = Args(argv, 3)
    exists: bool | None = None
    get = keep_ttl = False
    unit, amount = b"", b""
    while len(args):
        word = args.peek()
        if word in {b"NX", b"XX"} and exists is not (word == b"NX"):
            exists = word == b"XX"
        elif word == b"GET":
            get = True
        elif word == b"KEEPTTL" and not unit:
            keep_ttl = True
        elif word in _TIMES and not keep_ttl and unit in {b"", word} and len(args) > 1:
            unit = args.take().upper()
            amount = args.argv[args.pos]
        else:
            raise CommandError(general.SYNTAX)
        args.take()
    deadline = None
    if unit:
        seconds, absolute = _TIMES[unit]
        deadline = positive_deadline(ctx, b"set", parse_int(amount), seconds=seconds, absolute=absolute)
    old = _read(ctx, key) if get else None
    if exists is not None and exists is not (ctx.db.get(key) is not None):
        return old
    if keep_ttl:
        _set(ctx, key, value, keep_ttl=True)
        ctx.effect(b"SET", key, value, b"KEEPTTL")
    else:
        _set_until(ctx, key, value, deadline)
    return old if get else OK


@command(
    "setnx",
    arity=3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="OW insert",
    group="string",
    acl="string",
    summary="Set a string unless the key exists.",
    syntax="key value",
)
def setnx(ctx: Context, argv: list[bytes]) -> Reply:
    if ctx.db.get(argv[1]) is not None:
        return 0
    _set_until(ctx, argv[1], argv[2], None)
    return 1


@command(
    "setex",
    arity=4,
    flags="write denyoom",
    keys=ONE_KEY,
    access="OW update",
    group="string",
    since="2.0.0",
    acl="string",
    summary="Set a string that expires after so many seconds.",
    syntax="key seconds value",
)
def setex(ctx: Context, argv: list[bytes]) -> Reply:
    deadline = positive_deadline(ctx, b"setex", parse_int(argv[2]), seconds=True, absolute=False)
    _set_until(ctx, argv[1], argv[3], deadline)
    return OK


@command(
    "psetex",
    arity=4,
    flags="write denyoom",
    keys=ONE_KEY,
    access="OW update",
    group="string",
    since="2.6.0",
    acl="string",
    summary="Set a string that expires after so many milliseconds.",
    syntax="key milliseconds value",
)
def psetex(ctx: Context, argv: list[bytes]) -> Reply:
    deadline = positive_deadline(ctx, b"psetex", parse_int(argv[2]), seconds=False, absolute=False)
    _set_until(ctx, argv[1], argv[3], deadline)
    return OK


@command(
    "getset",
    arity=3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW access update",
    group="string",
    acl="string",
    summary="Set a string; the one that was there.",
    syntax="key value",
)
def getset(ctx: Context, argv: list[bytes]) -> Reply:
    old = _read(ctx, argv[1])
    _set_until(ctx, argv[1], argv[2], None)
    return old


@command(
    "mset",
    arity=-3,
    flags="write denyoom",
    keys=_PAIRS,
    access="OW update",
    group="string",
    since="1.0.1",
    acl="string",
    summary="Set several strings at once.",
    complexity="O(keys)",
    syntax="key value [key value ...]",
)
def mset(ctx: Context, argv: list[bytes]) -> Reply:
    _set_pairs(ctx, argv, b"mset")
    return OK


@command(
    "msetnx",
    arity=-3,
    flags="write denyoom",
    keys=_PAIRS,
    access="OW insert",
    group="string",
    since="1.0.1",
    acl="string",
    summary="Set several strings at once, unless one of the keys exists.",
    complexity="O(keys)",
    syntax="key value [key value ...]",
)
def msetnx(ctx: Context, argv: list[bytes]) -> Reply:
    return int(_set_pairs(ctx, argv, b"msetnx", only_new=True))


def _set_pairs(ctx: Context, argv: list[bytes], name: bytes, *, only_new: bool = False) -> bool:
    if len(argv) % 2 == 0:
        raise CommandError(general.wrong_arity(name))
    if only_new and any(ctx.db.get(key) is not None for key in argv[1::2]):
        return False
    for key, value in zip(argv[1::2], argv[2::2], strict=True):
        _set(ctx, key, value)
    ctx.effect(b"MSET", *argv[1:])
    return True


# -- GET and its kin ------------------------------------------------------------------------------------------------


@command(
    "get",
    arity=2,
    flags="readonly fast",
    keys=ONE_KEY,
    group="string",
    acl="string",
    summary="The string at a key.",
    syntax="key",
)
def get(ctx: Context, argv: list[bytes]) -> Reply:
    return _read(ctx, argv[1])


@command(
    "mget",
    arity=-2,
    flags="readonly fast",
    keys=ALL_KEYS,
    group="string",
    acl="string",
    summary="The strings at several keys, nil for what is no string.",
    complexity="O(keys)",
    syntax="key [key ...]",
)
def mget(ctx: Context, argv: list[bytes]) -> Reply:
    found = map(ctx.db.read, argv[1:])
    return [bytes(value) if isinstance(value, bytes | bytearray) else None for value in found]


@command(
    "getdel",
    arity=2,
    flags="write fast",
    keys=ONE_KEY,
    access="RW access delete",
    group="string",
    since="6.2.0",
    acl="string",
    summary="The string at a key, which then goes.",
    syntax="key",
)
def getdel(ctx: Context, argv: list[bytes]) -> Reply:
    value = _read(ctx, argv[1])
    if value is not None:
        ctx.db.delete(argv[1])
        ctx.changes.notify("g", b"del", argv[1], ctx.db.index)
        ctx.effect(b"DEL", argv[1])
    return value


@command(
    "getex",
    arity=-2,
    flags="write fast",
    keys=ONE_KEY,
    access="RW access update",
    group="string",
    since="6.2.0",
    acl="string",
    summary="The string at a key, and a change of its expiry.",
    syntax=f"key [{_TIME_SYNTAX}|PERSIST]",
)
def getex(ctx: Context, argv: list[bytes]) -> Reply:
    key = argv[1]
    args = Args(argv, 2)
    persist = False
    unit, amount = b"", b""
    while len(args):
        word = args.peek()
        if word == b"PERSIST" and not unit:
            persist = True
        elif word in _TIMES and not persist and unit in {b"", word} and len(args) > 1:
            unit = args.take().upper()
            amount = args.argv[args.pos]
        else:
            raise CommandError(general.SYNTAX)
        args.take()
    value = _read(ctx, key)
    if value is None:
        return None
    if unit:
        seconds, absolute = _TIMES[unit]
        deadline = positive_deadline(ctx, b"getex", parse_int(amount), seconds=seconds, absolute=absolute)
        if is_past(ctx, deadline) and not absolute:
            raise AssertionError("a time to come lies in the past")
        expire_key(ctx, key, deadline)
    elif persist:
        persist_key(ctx, key)
    return value


@command(
    "strlen",
    arity=2,
    flags="readonly fast",
    keys=ONE_KEY,
    access="RO",
    group="string",
    since="2.2.0",
    acl="string",
    summary="The length of the string at a key.",
    syntax="key",
)
def strlen(ctx: Context, argv: list[bytes]) -> Reply:
    return len(_checked(ctx.db.read(argv[1])) or b"")


def _getrange(ctx: Context, argv: list[bytes]) -> bytes:
    start, end = parse_int(argv[2]), parse_int(argv[3])
    value = _checked(ctx.db.read(argv[1])) or b""
    if start < 0 and end < 0 and start > end:
        return b""
    length = len(value)
    start = max(start + length, 0) if start < 0 else start
    end = max(end + length, 0) if end < 0 else end
    return bytes(value[start : end + 1])


@command(
    "getrange",
    arity=4,
    flags="readonly",
    keys=ONE_KEY,
    group="string",
    since="2.4.0",
    acl="string",
    summary="A part of the string at a key, both ends included, negative from the end.",
    complexity="O(length)",
    syntax="key start end",
)
def getrange(ctx: Context, argv: list[bytes]) -> Reply:
    return _getrange(ctx, argv)


@command(
    "substr",
    arity=4,
    flags="readonly",
    keys=ONE_KEY,
    group="string",
    acl="string",
    summary="The old name of GETRANGE.",
    complexity="O(length)",
    syntax="key start end",
)
def substr(ctx: Context, argv: list[bytes]) -> Reply:
    return _getrange(ctx, argv)


# -- changes in place -----------------------------------------------------------------------------------------------


def _check_length(ctx: Context, length: int) -> None:
    if length > ctx.config.integer("proto-max-bulk-len"):
        raise CommandError(data.STRING_TOO_LONG)


def _raw(ctx: Context, key: bytes, value: String) -> bytearray:
    """The value at ``key`` as something that can be changed in place."""
    if isinstance(value, bytearray):
        return value
    raw = bytearray(value)
    ctx.db.set(key, raw, keep_ttl=True)
    return raw


@command(
    "append",
    arity=3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW insert",
    group="string",
    since="2.0.0",
    acl="string",
    summary="Append to the string at a key; its length.",
    complexity="O(length of what is appended)",
    syntax="key value",
)
def append(ctx: Context, argv: list[bytes]) -> Reply:
    key, more = argv[1], argv[2]
    value = _string(ctx, key)
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


@command(
    "setrange",
    arity=4,
    flags="write denyoom",
    keys=ONE_KEY,
    group="string",
    since="2.2.0",
    acl="string",
    summary="Overwrite a part of the string at a key, filled up with zero bytes; its length.",
    complexity="O(length)",
    syntax="key offset value",
)
def setrange(ctx: Context, argv: list[bytes]) -> Reply:
    key, part = argv[1], argv[3]
    offset = parse_int(argv[2])
    if offset < 0:
        raise CommandError(data.OFFSET_RANGE)
    value = _string(ctx, key)
    if not part:
        return len(value or b"")
    _check_length(ctx, offset + len(part))
    if value is None:
        raw = bytearray()
        ctx.db.add(key, raw)
    else:
        raw = _raw(ctx, key, value)
    raw.extend(bytes(max(offset - len(raw), 0)))
    raw[offset : offset + len(part)] = part
    ctx.db.touch(key)
    ctx.changes.notify("$", b"setrange", key, ctx.db.index)
    ctx.effect(b"SETRANGE", key, argv[2], part)
    return len(raw)


# -- numbers --------------------------------------------------------------------------------------------------------


def _increment(ctx: Context, key: bytes, by: int) -> int:
    value = _string(ctx, key)
    result = (0 if value is None else parse_int(bytes(value))) + by
    if not I64_MIN <= result <= I64_MAX:
        raise CommandError(data.OVERFLOW)
    _set(ctx, key, b"%d" % result, b"incrby", keep_ttl=True)
    ctx.effect(b"INCRBY", key, b"%d" % by)
    return result


@command(
    "incr",
    arity=2,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW access update",
    group="string",
    acl="string",
    summary="Add one to the integer at a key.",
    syntax="key",
)
def incr(ctx: Context, argv: list[bytes]) -> Reply:
    return _increment(ctx, argv[1], 1)


@command(
    "decr",
    arity=2,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW access update",
    group="string",
    acl="string",
    summary="Take one from the integer at a key.",
    syntax="key",
)
def decr(ctx: Context, argv: list[bytes]) -> Reply:
    return _increment(ctx, argv[1], -1)


@command(
    "incrby",
    arity=3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW access update",
    group="string",
    acl="string",
    summary="Add to the integer at a key.",
    syntax="key increment",
)
def incrby(ctx: Context, argv: list[bytes]) -> Reply:
    return _increment(ctx, argv[1], parse_int(argv[2]))


@command(
    "decrby",
    arity=3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW access update",
    group="string",
    acl="string",
    summary="Take from the integer at a key.",
    syntax="key decrement",
)
def decrby(ctx: Context, argv: list[bytes]) -> Reply:
    by = parse_int(argv[2])
    if by == I64_MIN:
        raise CommandError(data.DECREMENT_OVERFLOW)
    return _increment(ctx, argv[1], -by)


def sum_of_floats(one: Fraction | None, two: Fraction | None, error: bytes) -> Fraction:
    """The rounded sum; ``error`` where one of them is none, another one where the sum is not finite."""
    if one is None or two is None:
        raise CommandError(error)
    result = longdouble.rounded(one + two)
    if not longdouble.fits(result):
        raise CommandError(data.NOT_FINITE)
    return result


@command(
    "incrbyfloat",
    arity=3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW access update",
    group="string",
    since="2.6.0",
    acl="string",
    summary="Add to the number at a key.",
    syntax="key increment",
)
def incrbyfloat(ctx: Context, argv: list[bytes]) -> Reply:
    key = argv[1]
    value = _string(ctx, key)
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
    _set(ctx, key, result, b"incrbyfloat", keep_ttl=True)
    ctx.effect(b"SET", key, result, b"KEEPTTL")
    return result
