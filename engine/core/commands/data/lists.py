"""Lists, work queues above all: pushes and pops at both ends are O(1), a blocked pop is served with the push.

A list is a deque. The log gets the pops that happened (LPOP, RPOP, LMOVE), never that somebody waited.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from engine.core.protocol.args import I64_MAX, Args, parse_int
from engine.core.protocol.replies import NIL_ARRAY, OK, CommandError, Reply
from engine.core.table.registry import ONE_KEY, Keys, command
from engine.text import longdouble
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

List = deque[bytes]

_TWO_KEYS = Keys(1, 2, 1)
_BLOCKING_KEYS = Keys(1, -2, 1)
_SIDES = (b"LEFT", b"RIGHT")


def _list(ctx: Context, key: bytes) -> List | None:
    value: List | None = ctx.db.typed(key, deque)
    return value


def _read(ctx: Context, key: bytes) -> List | None:
    value: List | None = ctx.db.read_typed(key, deque)
    return value


def _notify(ctx: Context, event: bytes, key: bytes) -> None:
    ctx.changes.notify("l", event, key, ctx.db.index)


def _drop_if_empty(ctx: Context, key: bytes, items: List) -> None:
    if not items:
        ctx.db.delete(key)
        ctx.changes.notify("g", b"del", key, ctx.db.index)


# -- pushing and popping --------------------------------------------------------------------------------------------


def _push(ctx: Context, key: bytes, words: list[bytes], *, left: bool, items: List | None) -> int:
    if items is None:
        items = deque()
        ctx.db.add(key, items)
    if left:
        items.extendleft(words)
    else:
        items.extend(words)
    ctx.db.touch(key)
    _notify(ctx, b"lpush" if left else b"rpush", key)
    return len(items)


def _push_command(ctx: Context, argv: list[bytes], *, left: bool, only_if_exists: bool) -> int:
    items = _list(ctx, argv[1])
    if items is None and only_if_exists:
        return 0
    length = _push(ctx, argv[1], argv[2:], left=left, items=items)
    ctx.effect(b"LPUSH" if left else b"RPUSH", *argv[1:])
    return length


@command(
    "lpush",
    arity=-3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW insert",
    group="list",
    acl="list",
    summary="Put elements before a list's first one, each before the one named before it.",
    complexity="O(elements)",
    syntax="key element [element ...]",
)
def lpush(ctx: Context, argv: list[bytes]) -> Reply:
    return _push_command(ctx, argv, left=True, only_if_exists=False)


@command(
    "rpush",
    arity=-3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW insert",
    group="list",
    acl="list",
    summary="Put elements behind a list's last one.",
    complexity="O(elements)",
    syntax="key element [element ...]",
)
def rpush(ctx: Context, argv: list[bytes]) -> Reply:
    return _push_command(ctx, argv, left=False, only_if_exists=False)


@command(
    "lpushx",
    arity=-3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW insert",
    group="list",
    since="2.2.0",
    acl="list",
    summary="As LPUSH, if the list exists.",
    complexity="O(elements)",
    syntax="key element [element ...]",
)
def lpushx(ctx: Context, argv: list[bytes]) -> Reply:
    return _push_command(ctx, argv, left=True, only_if_exists=True)


@command(
    "rpushx",
    arity=-3,
    flags="write denyoom fast",
    keys=ONE_KEY,
    access="RW insert",
    group="list",
    since="2.2.0",
    acl="list",
    summary="As RPUSH, if the list exists.",
    complexity="O(elements)",
    syntax="key element [element ...]",
)
def rpushx(ctx: Context, argv: list[bytes]) -> Reply:
    return _push_command(ctx, argv, left=False, only_if_exists=True)


def _pop(ctx: Context, key: bytes, items: List, count: int, *, left: bool) -> list[bytes]:
    """Take up to ``count`` elements from one end; the log gets an LPOP or RPOP."""
    take = items.popleft if left else items.pop
    count = min(count, len(items))
    popped = [take() for _ in range(count)]
    ctx.db.touch(key)
    _notify(ctx, b"lpop" if left else b"rpop", key)
    ctx.effect(b"LPOP" if left else b"RPOP", key, b"%d" % count)
    _drop_if_empty(ctx, key, items)
    return popped


def _pop_command(ctx: Context, argv: list[bytes], name: bytes, *, left: bool) -> Reply:
    if len(argv) > 3:
        raise CommandError(general.wrong_arity(name))
    count = None
    if len(argv) == 3:
        count = parse_int(argv[2], general.NOT_POSITIVE)
        if count < 0:
            raise CommandError(general.NOT_POSITIVE)
    items = _list(ctx, argv[1])
    if items is None:
        return None if count is None else NIL_ARRAY
    if count is None:
        return _pop(ctx, argv[1], items, 1, left=left)[0]
    return _pop(ctx, argv[1], items, count, left=left) if count else []


@command(
    "lpop",
    arity=-2,
    flags="write fast",
    keys=ONE_KEY,
    access="RW access delete",
    group="list",
    acl="list",
    summary="Take elements from a list's beginning.",
    complexity="O(count)",
    syntax="key [count]",
)
def lpop(ctx: Context, argv: list[bytes]) -> Reply:
    return _pop_command(ctx, argv, b"lpop", left=True)


@command(
    "rpop",
    arity=-2,
    flags="write fast",
    keys=ONE_KEY,
    access="RW access delete",
    group="list",
    acl="list",
    summary="Take elements from a list's end, the last one first.",
    complexity="O(count)",
    syntax="key [count]",
)
def rpop(ctx: Context, argv: list[bytes]) -> Reply:
    return _pop_command(ctx, argv, b"rpop", left=False)


def _move(ctx: Context, source: bytes, target: bytes, items: List, *, left: bool, to_left: bool) -> bytes:
    """Take an element from ``source`` and put it into ``target``."""
    into = _list(ctx, target)
    element = items.popleft() if left else items.pop()
    _push(ctx, target, [element], left=to_left, items=into)
    ctx.db.touch(source)
    _notify(ctx, b"lpop" if left else b"rpop", source)
    ctx.effect(b"LMOVE", source, target, _SIDES[not left], _SIDES[not to_left])
    _drop_if_empty(ctx, source, items)
    return element


def _is_left(word: bytes) -> bool:
    if word.upper() not in _SIDES:
        raise CommandError(general.SYNTAX)
    return word.upper() == b"LEFT"


@command(
    "lmove",
    arity=5,
    flags="write denyoom",
    keys=_TWO_KEYS,
    access="RW access delete, RW insert",
    group="list",
    since="6.2.0",
    acl="list",
    summary="Take an element from one list and put it into another (or the same) one.",
    syntax="source destination <LEFT|RIGHT> <LEFT|RIGHT>",
)
def lmove(ctx: Context, argv: list[bytes]) -> Reply:
    left, to_left = _is_left(argv[3]), _is_left(argv[4])
    items = _list(ctx, argv[1])
    return None if items is None else _move(ctx, argv[1], argv[2], items, left=left, to_left=to_left)


@command(
    "rpoplpush",
    arity=3,
    flags="write denyoom",
    keys=_TWO_KEYS,
    access="RW access delete, RW insert",
    group="list",
    since="1.2.0",
    acl="list",
    summary="Take a list's last element and put it before the first one of another.",
    syntax="source destination",
)
def rpoplpush(ctx: Context, argv: list[bytes]) -> Reply:
    items = _list(ctx, argv[1])
    return None if items is None else _move(ctx, argv[1], argv[2], items, left=False, to_left=True)


# -- blocking -------------------------------------------------------------------------------------------------------


def _timeout(word: bytes) -> int:
    """A timeout in seconds as milliseconds, 0 for ever. What does not fit 64 bits counts as negative, as in Redis."""
    try:
        seconds = longdouble.parse(word)
    except longdouble.InfiniteError:
        raise CommandError(general.TIMEOUT_NEGATIVE) from None
    if seconds is None:
        raise CommandError(general.TIMEOUT_NOT_FLOAT)
    milliseconds = math.ceil(seconds * 1000)
    if not 0 <= milliseconds <= I64_MAX:
        raise CommandError(general.TIMEOUT_NEGATIVE)
    return milliseconds


def _blocking_pop(ctx: Context, argv: list[bytes], *, left: bool) -> Reply:
    timeout = _timeout(argv[-1])
    keys = argv[1:-1]
    for key in keys:
        items = _list(ctx, key)
        if items:
            return [key, _pop(ctx, key, items, 1, left=left)[0]]
    return ctx.block(argv, keys, timeout, type_name=b"list")


@command(
    "blpop",
    arity=-3,
    flags="write noscript blocking",
    keys=_BLOCKING_KEYS,
    access="RW access delete",
    group="list",
    since="2.0.0",
    acl="list",
    summary="Take the first element of the first list that has one; wait where none has.",
    complexity="O(keys)",
    syntax="key [key ...] timeout",
)
def blpop(ctx: Context, argv: list[bytes]) -> Reply:
    return _blocking_pop(ctx, argv, left=True)


@command(
    "brpop",
    arity=-3,
    flags="write noscript blocking",
    keys=_BLOCKING_KEYS,
    access="RW access delete",
    group="list",
    since="2.0.0",
    acl="list",
    summary="Take the last element of the first list that has one; wait where none has.",
    complexity="O(keys)",
    syntax="key [key ...] timeout",
)
def brpop(ctx: Context, argv: list[bytes]) -> Reply:
    return _blocking_pop(ctx, argv, left=False)


@command(
    "blmove",
    arity=6,
    flags="write denyoom noscript blocking",
    keys=_TWO_KEYS,
    access="RW access delete, RW insert",
    group="list",
    since="6.2.0",
    acl="list",
    summary="As LMOVE; wait where the source is empty.",
    syntax="source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout",
)
def blmove(ctx: Context, argv: list[bytes]) -> Reply:
    left, to_left = _is_left(argv[3]), _is_left(argv[4])
    return _blocking_move(ctx, argv, left=left, to_left=to_left)


@command(
    "brpoplpush",
    arity=4,
    flags="write denyoom noscript blocking",
    keys=_TWO_KEYS,
    access="RW access delete, RW insert",
    group="list",
    since="2.2.0",
    acl="list",
    summary="As RPOPLPUSH; wait where the source is empty.",
    syntax="source destination timeout",
)
def brpoplpush(ctx: Context, argv: list[bytes]) -> Reply:
    return _blocking_move(ctx, argv, left=False, to_left=True)


def _blocking_move(ctx: Context, argv: list[bytes], *, left: bool, to_left: bool) -> Reply:
    timeout = _timeout(argv[-1])
    items = _list(ctx, argv[1])
    if items is None:
        return ctx.block(argv, [argv[1]], timeout, type_name=b"list", on_timeout=None)
    return _move(ctx, argv[1], argv[2], items, left=left, to_left=to_left)


# -- asking ---------------------------------------------------------------------------------------------------------


@command(
    "llen",
    arity=2,
    flags="readonly fast",
    keys=ONE_KEY,
    access="RO",
    group="list",
    acl="list",
    summary="The length of a list.",
    syntax="key",
)
def llen(ctx: Context, argv: list[bytes]) -> Reply:
    return len(_read(ctx, argv[1]) or ())


def _bounds(start: int, stop: int, length: int) -> tuple[int, int]:
    """A half-open range from two indexes, both included, negative ones counted from the end."""
    low = max(start + length, 0) if start < 0 else start
    high = (stop + length if stop < 0 else min(stop, length - 1)) + 1
    return low, max(low, high)


@command(
    "lrange",
    arity=4,
    flags="readonly",
    keys=ONE_KEY,
    group="list",
    acl="list",
    summary="The elements from one index to another, both included.",
    complexity="O(index + elements)",
    syntax="key start stop",
)
def lrange(ctx: Context, argv: list[bytes]) -> Reply:
    start, stop = parse_int(argv[2]), parse_int(argv[3])
    items = _read(ctx, argv[1])
    if items is None:
        return []
    low, high = _bounds(start, stop, len(items))
    if low >= len(items):
        return []
    if low > len(items) // 2:
        # A deque is walked from the end that is nearer.
        return list(islice(reversed(items), len(items) - high, len(items) - low))[::-1]
    return list(islice(items, low, high))


@command(
    "lindex",
    arity=3,
    flags="readonly",
    keys=ONE_KEY,
    group="list",
    acl="list",
    summary="The element at an index.",
    complexity="O(index)",
    syntax="key index",
)
def lindex(ctx: Context, argv: list[bytes]) -> Reply:
    items = _read(ctx, argv[1])
    if items is None:
        return None
    index = parse_int(argv[2])
    return items[index] if -len(items) <= index < len(items) else None


@command(
    "lpos",
    arity=-3,
    flags="readonly",
    keys=ONE_KEY,
    group="list",
    since="6.0.6",
    acl="list",
    summary="Where an element stands in a list.",
    complexity="O(size)",
    syntax="key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
)
def lpos(ctx: Context, argv: list[bytes]) -> Reply:
    element = argv[2]
    args = Args(argv, 3)
    rank, count, max_len = 1, -1, 0
    while len(args):
        if args.option(b"RANK"):
            rank = args.take_int()
            if not rank:
                raise CommandError(data.RANK_ZERO)
        elif args.option(b"COUNT"):
            count = _not_negative(args, data.COUNT_NEGATIVE)
        elif args.option(b"MAXLEN"):
            max_len = _not_negative(args, data.MAXLEN_BELOW_ZERO)
        else:
            raise CommandError(general.SYNTAX)
    items = _read(ctx, argv[1])
    if items is None:
        return None if count < 0 else []
    length = len(items)
    walk = enumerate(items) if rank > 0 else ((length - 1 - at, item) for at, item in enumerate(reversed(items)))
    found = (index for index, item in islice(walk, max_len or length) if item == element)
    first = islice(found, abs(rank) - 1, None)
    return next(first, None) if count < 0 else list(islice(first, count or None))


def _not_negative(args: Args, error: bytes) -> int:
    value = args.take_int(error)
    if value < 0:
        raise CommandError(error)
    return value


# -- changes in place -----------------------------------------------------------------------------------------------


@command(
    "lset",
    arity=4,
    flags="write denyoom",
    keys=ONE_KEY,
    group="list",
    acl="list",
    summary="Replace the element at an index.",
    complexity="O(index)",
    syntax="key index element",
)
def lset(ctx: Context, argv: list[bytes]) -> Reply:
    items = _list(ctx, argv[1])
    if items is None:
        raise CommandError(general.NO_SUCH_KEY)
    index = parse_int(argv[2])
    if not -len(items) <= index < len(items):
        raise CommandError(data.INDEX_RANGE)
    items[index] = argv[3]
    ctx.db.touch(argv[1])
    _notify(ctx, b"lset", argv[1])
    ctx.effect(b"LSET", *argv[1:])
    return OK


@command(
    "linsert",
    arity=5,
    flags="write denyoom",
    keys=ONE_KEY,
    access="RW insert",
    group="list",
    since="2.2.0",
    acl="list",
    summary="Insert an element beside the first one that equals the pivot.",
    complexity="O(index)",
    syntax="key <BEFORE|AFTER> pivot element",
)
def linsert(ctx: Context, argv: list[bytes]) -> Reply:
    side = argv[2].upper()
    if side not in {b"BEFORE", b"AFTER"}:
        raise CommandError(general.SYNTAX)
    items = _list(ctx, argv[1])
    if items is None:
        return 0
    try:
        items.insert(items.index(argv[3]) + (side == b"AFTER"), argv[4])
    except ValueError:
        return -1
    ctx.db.touch(argv[1])
    _notify(ctx, b"linsert", argv[1])
    ctx.effect(b"LINSERT", *argv[1:])
    return len(items)


@command(
    "lrem",
    arity=4,
    flags="write",
    keys=ONE_KEY,
    access="RW delete",
    group="list",
    acl="list",
    summary="Remove elements that equal the given one: all (0), the first ones, or (negative) the last ones.",
    complexity="O(size)",
    syntax="key count element",
)
def lrem(ctx: Context, argv: list[bytes]) -> Reply:
    key, element = argv[1], argv[3]
    count = parse_int(argv[2])
    items = _list(ctx, key)
    if items is None:
        return 0
    left = abs(count) if count else len(items)
    kept = []
    for item in reversed(items) if count < 0 else items:
        if left and item == element:
            left -= 1
        else:
            kept.append(item)
    removed = len(items) - len(kept)
    if removed:
        items.clear()
        items.extend(reversed(kept) if count < 0 else kept)
        ctx.db.touch(key)
        _notify(ctx, b"lrem", key)
        ctx.effect(b"LREM", *argv[1:])
        _drop_if_empty(ctx, key, items)
    return removed


@command(
    "ltrim",
    arity=4,
    flags="write",
    keys=ONE_KEY,
    access="RW delete",
    group="list",
    acl="list",
    summary="Keep the elements from one index to another, both included.",
    complexity="O(removed elements)",
    syntax="key start stop",
)
def ltrim(ctx: Context, argv: list[bytes]) -> Reply:
    key = argv[1]
    start, stop = parse_int(argv[2]), parse_int(argv[3])
    items = _list(ctx, key)
    if items is None:
        return OK
    low, high = _bounds(start, stop, len(items))
    for _ in range(len(items) - high):
        items.pop()
    for _ in range(min(low, len(items))):
        items.popleft()
    ctx.db.touch(key)
    _notify(ctx, b"ltrim", key)
    ctx.effect(b"LTRIM", *argv[1:])
    _drop_if_empty(ctx, key, items)
    return OK
