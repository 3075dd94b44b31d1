"""Whole strings: SET, GET and their variants.

A string is bytes, or a bytearray after APPEND has changed it in place (the ``raw`` encoding in Redis).

If the result of a command depends on the clock or on floating-point arithmetic, the log receives that result instead of
the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.data.expiry import TIME_SYNTAX, TimeOption, expire_key, persist_key
from engine.core.commands.data.strings.digests import CONDITIONS, is_met
from engine.core.commands.families import string_command
from engine.core.protocol.args import Args
from engine.core.protocol.replies import OK, CommandError, Reply, paged
from engine.core.table.registry import ALL_KEYS, Keys
from engine.text.messages import general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

String = bytes | bytearray

_PAIRS = Keys(1, -1, 2)


def checked(value: object) -> String | None:
    """Return the value if it is a string or None. Raise WRONGTYPE otherwise."""
    if value is None or isinstance(value, bytes | bytearray):
        return value
    raise CommandError(general.WRONG_TYPE)


def string_at(ctx: Context, key: bytes) -> String | None:
    """Return the string at ``key`` as stored."""
    return checked(ctx.db.get(key))


def _read(ctx: Context, key: bytes) -> bytes | None:
    """Return the string at ``key`` for a reply."""
    return _shown(ctx.db.read(key))


def _shown(value: object) -> bytes | None:
    """Return a stored value as bytes for a reply. Raise WRONGTYPE if it is not a string."""
    string = checked(value)
    return None if string is None else bytes(string)


def set_string(ctx: Context, key: bytes, value: bytes, event: bytes = b"set", *, keep_ttl: bool = False) -> None:
    """Set a string, replacing a value of any type. Record the event, but no effect."""
    former = ctx.db.set(key, value, keep_ttl)
    if ctx.changes.on_event is not None:
        if event == b"set":
            ctx.db.report_overwritten(key, former, value)
        ctx.changes.notify("$", event, key, ctx.db.index)


def _set_until(ctx: Context, key: bytes, value: bytes, deadline: int | None) -> None:
    """Set a string and its deadline, if any. Record the effect and the events."""
    set_string(ctx, key, value)
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
        set_string(ctx, key, value)
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
        elif word in CONDITIONS and exists is None and condition in {b"", word} and args.option(word):
            condition, wanted = word, args.take()
        elif not time.parse(args, b"KEEPTTL"):
            raise CommandError(general.SYNTAX)
    deadline = time.deadline(ctx, b"set")
    old = _read(ctx, key) if get else None
    if exists is not None and exists is not (ctx.db.get(key) is not None):
        return old
    if condition and not is_met(condition, wanted, string_at(ctx, key)):
        return old
    if time.keeps:
        set_string(ctx, key, value, keep_ttl=True)
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
    if len(argv) % 2 == 0:
        raise CommandError(general.wrong_arity(argv[0].lower()))
    for key, value in zip(argv[1::2], argv[2::2], strict=True):
        set_string(ctx, key, value)
    if ctx.changes.recording:
        ctx.effect(b"MSET", *argv[1:])
    return OK


# -- GET and its variants --------------------------------------------------------------------------------------------


@string_command("get key", "readonly fast")
def get(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key."""
    value = ctx.db.read(argv[1])
    return value if type(value) is bytes else _shown(value)


@string_command("mget key [key ...]", "readonly fast", keys=ALL_KEYS, complexity="O(keys)")
def mget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the strings at several keys, nil for a key without a string."""
    found = map(ctx.db.read, argv[1:])
    return paged([bytes(value) if isinstance(value, bytes | bytearray) else None for value in found])


@string_command("getdel key", "write fast", access="RW access delete", since="6.2.0")
def getdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key and deletes the key."""
    value = _read(ctx, argv[1])
    if value is not None:
        ctx.db.delete(argv[1])
        ctx.changes.notify("g", b"del", argv[1], ctx.db.index)
        ctx.effect(b"DEL", argv[1])
    return value


@string_command(f"getex key [{TIME_SYNTAX}|PERSIST]", "write fast", access="RW access update", since="6.2.0")
def getex(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the string at a key; with an option, changes the key's expiry."""
    key = argv[1]
    args = Args(argv, 2)
    time = TimeOption()
    while len(args):
        if not time.parse(args, b"PERSIST"):
            raise CommandError(general.SYNTAX)
    value = _read(ctx, key)
    if value is None:
        return None
    deadline = time.deadline(ctx, b"getex")
    if deadline is not None:
        expire_key(ctx, key, deadline)
    elif time.keeps:
        persist_key(ctx, key)
    return value
