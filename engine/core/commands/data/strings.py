"""Strings: plain bytes, or a bytearray once APPEND or SETRANGE has been at work (a string that Redis calls raw).

The log gets results, not requests, where a request depends on the clock or on the machine's floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.data.expiry import expire_key, is_past, persist_key, positive_deadline
from engine.core.commands.families import string_command
from engine.core.protocol.args import I64_MAX, I64_MIN, Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.core.table.registry import ALL_KEYS, Keys
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


@string_command(
    f"set key value [NX|XX] [GET] [{_TIME_SYNTAX}|KEEPTTL]", "write denyoom", access="RW access update variable_flags"
)
def set_(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string, whatever the key held."""
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


@string_command("setnx key value", "write denyoom fast", access="OW insert")
def setnx(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string unless the key exists."""
    if ctx.db.get(argv[1]) is not None:
        return 0
    _set_until(ctx, argv[1], argv[2], None)
    return 1


@string_command("setex key seconds value", "write denyoom", access="OW update", since="2.0.0")
def setex(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string that expires after a number of seconds."""
    deadline = positive_deadline(ctx, b"setex", parse_int(argv[2]), seconds=True, absolute=False)
    _set_until(ctx, argv[1], argv[3], deadline)
    return OK


@string_command("psetex key milliseconds value", "write denyoom", access="OW update", since="2.6.0")
def psetex(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string that expires after a number of milliseconds."""
    deadline = positive_deadline(ctx, b"psetex", parse_int(argv[2]), seconds=False, absolute=False)
    _set_until(ctx, argv[1], argv[3], deadline)
    return OK


@string_command("getset key value", "write denyoom fast", access="RW access update")
def getset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a string and returns the previous one."""
    old = _read(ctx, argv[1])
    _set_until(ctx, argv[1], argv[2], None)
    return old


@string_command(
    "mset key value [key value ...]",
    "write denyoom",
    keys=_PAIRS,
    access="OW update",
    since="1.0.1",
    complexity="O(keys)",
)
def mset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets several strings at once."""
    _set_pairs(ctx, argv, b"mset")
    return OK


@string_command(
    "msetnx key value [key value ...]",
    "write denyoom",
    keys=_PAIRS,
    access="OW insert",
    since="1.0.1",
    complexity="O(keys)",
)
def msetnx(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets several strings at once, unless one of the keys exists."""
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


@string_command("get key", "readonly fast")
def get(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key."""
    return _read(ctx, argv[1])


@string_command("mget key [key ...]", "readonly fast", keys=ALL_KEYS, complexity="O(keys)")
def mget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the strings at several keys, nil for a key that holds none."""
    found = map(ctx.db.read, argv[1:])
    return [bytes(value) if isinstance(value, bytes | bytearray) else None for value in found]


@string_command("getdel key", "write fast", access="RW access delete", since="6.2.0")
def getdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key and deletes the key."""
    value = _read(ctx, argv[1])
    if value is not None:
        ctx.db.delete(argv[1])
        ctx.changes.notify("g", b"del", argv[1], ctx.db.index)
        ctx.effect(b"DEL", argv[1])
    return value


@string_command(f"getex key [{_TIME_SYNTAX}|PERSIST]", "write fast", access="RW access update", since="6.2.0")
def getex(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key and changes its expiry."""
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


@string_command("strlen key", "readonly fast", access="RO", since="2.2.0")
def strlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of the string at a key."""
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


@string_command("getrange key start end", "readonly", since="2.4.0", complexity="O(length)")
def getrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a part of the string at a key, both ends included; negative positions count from the end."""
    return _getrange(ctx, argv)


@string_command("substr key start end", "readonly", complexity="O(length)")
def substr(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a part of the string at a key: the old name of GETRANGE."""
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
    ctx.db.set(key, raw, keep_ttl=True, changes=0)
    return raw


@string_command(
    "append key value",
    "write denyoom fast",
    access="RW insert",
    since="2.0.0",
    complexity="O(length of what is appended)",
)
def append(ctx: Context, argv: list[bytes]) -> Reply:
    """Appends to the string at a key, and returns its new length."""
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


@string_command("setrange key offset value", "write denyoom", since="2.2.0", complexity="O(length)")
def setrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Overwrites a part of the string at a key, padded with zero bytes, and returns its new length."""
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
        ctx.db.add(key, raw, changes=0)
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


def sum_of_floats(one: Fraction | None, two: Fraction | None, error: bytes) -> Fraction:
    """The rounded sum; ``error`` where one of them is none, another one where the sum is not finite."""
    if one is None or two is None:
        raise CommandError(error)
    result = longdouble.rounded(one + two)
    if not longdouble.fits(result):
        raise CommandError(data.NOT_FINITE)
    return result


@string_command("incrbyfloat key increment", "write denyoom fast", access="RW access update", since="2.6.0")
def incrbyfloat(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the number at a key, which may have a fraction."""
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
