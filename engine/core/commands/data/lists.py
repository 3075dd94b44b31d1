"""Lists, work queues above all: pushes and pops at both ends are O(1), a blocked pop is served with the push.

A list is a deque. The log gets the pops that happened (LPOP, RPOP, LMOVE), never that somebody waited.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from engine.core.commands.families import list_command
from engine.core.protocol.args import I64_MAX, Args, parse_int
from engine.core.protocol.replies import NIL_ARRAY, OK, CommandError, Reply
from engine.core.table.registry import Keys
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


@list_command("lpush key element [element ...]", "write denyoom fast", access="RW insert", complexity="O(elements)")
def lpush(ctx: Context, argv: list[bytes]) -> Reply:
    """Inserts elements at the beginning of a list, one after the other."""
    return _push_command(ctx, argv, left=True, only_if_exists=False)


@list_command("rpush key element [element ...]", "write denyoom fast", access="RW insert", complexity="O(elements)")
def rpush(ctx: Context, argv: list[bytes]) -> Reply:
    """Appends elements to a list."""
    return _push_command(ctx, argv, left=False, only_if_exists=False)


@list_command(
    "lpushx key element [element ...]",
    "write denyoom fast",
    access="RW insert",
    since="2.2.0",
    complexity="O(elements)",
)
def lpushx(ctx: Context, argv: list[bytes]) -> Reply:
    """Inserts elements at the beginning of a list if the list exists."""
    return _push_command(ctx, argv, left=True, only_if_exists=True)


@list_command(
    "rpushx key element [element ...]",
    "write denyoom fast",
    access="RW insert",
    since="2.2.0",
    complexity="O(elements)",
)
def rpushx(ctx: Context, argv: list[bytes]) -> Reply:
    """Appends elements to a list if the list exists."""
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


@list_command("lpop key [count]", "write fast", access="RW access delete", complexity="O(count)")
def lpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns elements from the beginning of a list."""
    return _pop_command(ctx, argv, b"lpop", left=True)


@list_command("rpop key [count]", "write fast", access="RW access delete", complexity="O(count)")
def rpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns elements from the end of a list, the last one first."""
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


@list_command(
    "lmove source destination <LEFT|RIGHT> <LEFT|RIGHT>",
    "write denyoom",
    keys=_TWO_KEYS,
    access="RW access delete, RW insert",
    since="6.2.0",
)
def lmove(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves an element from one end of a list to one end of another or the same list."""
    left, to_left = _is_left(argv[3]), _is_left(argv[4])
    items = _list(ctx, argv[1])
    return None if items is None else _move(ctx, argv[1], argv[2], items, left=left, to_left=to_left)


@list_command(
    "rpoplpush source destination", "write denyoom", keys=_TWO_KEYS, access="RW access delete, RW insert", since="1.2.0"
)
def rpoplpush(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves the last element of a list to the beginning of another or the same list."""
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


@list_command(
    "blpop key [key ...] timeout",
    "write noscript blocking",
    keys=_BLOCKING_KEYS,
    access="RW access delete",
    since="2.0.0",
    complexity="O(keys)",
)
def blpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns the first element of the first list that is not empty; waits while all are."""
    return _blocking_pop(ctx, argv, left=True)


@list_command(
    "brpop key [key ...] timeout",
    "write noscript blocking",
    keys=_BLOCKING_KEYS,
    access="RW access delete",
    since="2.0.0",
    complexity="O(keys)",
)
def brpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns the last element of the first list that is not empty; waits while all are."""
    return _blocking_pop(ctx, argv, left=False)


@list_command(
    "blmove source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout",
    "write denyoom noscript blocking",
    keys=_TWO_KEYS,
    access="RW access delete, RW insert",
    since="6.2.0",
)
def blmove(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves an element as LMOVE does; waits while the source is empty."""
    left, to_left = _is_left(argv[3]), _is_left(argv[4])
    return _blocking_move(ctx, argv, left=left, to_left=to_left)


@list_command(
    "brpoplpush source destination timeout",
    "write denyoom noscript blocking",
    keys=_TWO_KEYS,
    access="RW access delete, RW insert",
    since="2.2.0",
)
def brpoplpush(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves an element as RPOPLPUSH does; waits while the source is empty."""
    return _blocking_move(ctx, argv, left=False, to_left=True)


def _blocking_move(ctx: Context, argv: list[bytes], *, left: bool, to_left: bool) -> Reply:
    timeout = _timeout(argv[-1])
    items = _list(ctx, argv[1])
    if items is None:
        return ctx.block(argv, [argv[1]], timeout, type_name=b"list", on_timeout=None)
    return _move(ctx, argv[1], argv[2], items, left=left, to_left=to_left)


# -- asking ---------------------------------------------------------------------------------------------------------


@list_command("llen key", "readonly fast", access="RO")
def llen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of a list."""
    return len(_read(ctx, argv[1]) or ())


def _bounds(start: int, stop: int, length: int) -> tuple[int, int]:
    """A half-open range from two indexes, both included, negative ones counted from the end."""
    low = max(start + length, 0) if start < 0 else start
    high = (stop + length if stop < 0 else min(stop, length - 1)) + 1
    return low, max(low, high)


@list_command("lrange key start stop", "readonly", complexity="O(index + elements)")
def lrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the elements from one index to another, both included."""
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


@list_command("lindex key index", "readonly", complexity="O(index)")
def lindex(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the element at an index."""
    items = _read(ctx, argv[1])
    if items is None:
        return None
    index = parse_int(argv[2])
    return items[index] if -len(items) <= index < len(items) else None


@list_command(
    "lpos key element [RANK rank] [COUNT num-matches] [MAXLEN len]", "readonly", since="6.0.6", complexity="O(size)"
)
def lpos(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the indexes of elements that equal a given one."""
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


@list_command("lset key index element", "write denyoom", complexity="O(index)")
def lset(ctx: Context, argv: list[bytes]) -> Reply:
    """Replaces the element at an index."""
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


@list_command(
    "linsert key <BEFORE|AFTER> pivot element",
    "write denyoom",
    access="RW insert",
    since="2.2.0",
    complexity="O(index)",
)
def linsert(ctx: Context, argv: list[bytes]) -> Reply:
    """Inserts an element before or after the first one that equals the pivot."""
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


@list_command("lrem key count element", "write", access="RW delete", complexity="O(size)")
def lrem(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes elements that equal a given one: all (count 0), the first, or (count negative) the last ones."""
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


@list_command("ltrim key start stop", "write", access="RW delete", complexity="O(removed elements)")
def ltrim(ctx: Context, argv: list[bytes]) -> Reply:
    """Keeps the elements from one index to another, both included, and removes the others."""
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
