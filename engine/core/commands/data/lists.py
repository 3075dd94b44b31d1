"""Lists at their ends: pushes, pops, moves between lists, and blocking pops, as used by work queues.

A list is a deque, so changes at both ends cost O(1). After a command that adds elements to a list, the commands blocked
on the list run again. The log receives each pop as an LPOP, RPOP or LMOVE, never as a blocking command.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from engine.core.commands.data.mutations import changed
from engine.core.commands.families import list_command
from engine.core.protocol.args import I64_MAX, Args, numbered_keys, parse_int
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Reply, holding, paged
from engine.core.table.registry import Handler, Keys
from engine.text import longdouble
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

List = deque[bytes]

_TWO_KEYS = Keys(1, 2, 1)
_BLOCKING_KEYS = Keys(1, -2, 1)
_SIDES = (b"LEFT", b"RIGHT")


def list_at(ctx: Context, key: bytes) -> List | None:
    """Return the list at ``key`` for changes. Raise WRONGTYPE for another type."""
    value: List | None = ctx.db.typed(key, deque)
    return value


# -- pushes ---------------------------------------------------------------------------------------------------------


def _push(ctx: Context, key: bytes, words: list[bytes], *, left: bool, items: List | None, changes: int) -> int:
    """Add elements to ``items``, the list at ``key`` (None: create it); return the list's new length."""
    if items is None:
        items = deque()
        ctx.db.add(key, items, changes=0)
    if left:
        items.extendleft(words)
    else:
        items.extend(words)
    ctx.db.changed(key, "l", b"lpush" if left else b"rpush", changes)
    return len(items)


def _push_command(*, left: bool, only_if_exists: bool) -> Handler:
    def push(ctx: Context, argv: list[bytes]) -> Reply:
        key, words = argv[1], argv[2:]
        items = ctx.db.typed(key, deque)
        if items is None and only_if_exists:
            return 0
        length = _push(ctx, key, words, left=left, items=items, changes=len(words))
        if ctx.changes.recording:
            ctx.effect(b"LPUSH" if left else b"RPUSH", *argv[1:])
        return length

    return push


for _name, _since, _left, _only_if_exists, _summary in (
    ("lpush", "1.0.0", True, False, "Inserts elements at the beginning of a list, one after the other."),
    ("rpush", "1.0.0", False, False, "Appends elements to a list."),
    ("lpushx", "2.2.0", True, True, "Inserts elements at the beginning of a list if the list exists."),
    ("rpushx", "2.2.0", False, True, "Appends elements to a list if the list exists."),
):
    list_command(
        f"{_name} key element [element ...]",
        "write denyoom fast",
        access="RW insert",
        since=_since,
        complexity="O(elements)",
        summary=_summary,
    )(_push_command(left=_left, only_if_exists=_only_if_exists))


# -- pops -----------------------------------------------------------------------------------------------------------


def _pop(ctx: Context, key: bytes, items: List, count: int, *, left: bool) -> list[bytes]:
    """Remove up to ``count`` elements from one end, logged as an LPOP or RPOP."""
    pop = items.popleft if left else items.pop
    count = min(count, len(items))
    popped: list[bytes] = []
    for _ in range(count):
        popped.append(pop())  # noqa: PERF401 - a comprehension is slower for one element
    if ctx.changes.recording:
        ctx.effect(b"LPOP" if left else b"RPOP", key, b"%d" % count)
    changed(ctx, "l", b"lpop" if left else b"rpop", key, items, count)
    return popped


def _pop_command(*, left: bool) -> Handler:
    def pop(ctx: Context, argv: list[bytes]) -> Reply:
        key, count = argv[1], None
        if len(argv) > 2:
            if len(argv) > 3:
                raise CommandError(general.wrong_arity(argv[0].lower()))
            count = parse_int(argv[2], general.NOT_POSITIVE)
            if count < 0:
                raise CommandError(general.NOT_POSITIVE)
        items = ctx.db.typed(key, deque)
        if items is None:
            return None if count is None else NIL_ARRAY
        if count is None:
            return _pop(ctx, key, items, 1, left=left)[0]
        return paged(_pop(ctx, key, items, count, left=left)) if count else []

    return pop


for _name, _left, _summary in (
    ("lpop", True, "Removes and returns elements from the beginning of a list."),
    ("rpop", False, "Removes and returns elements from the end of a list, the last one first."),
):
    list_command(
        f"{_name} key [count]", "write fast", access="RW access delete", complexity="O(count)", summary=_summary
    )(_pop_command(left=_left))


# -- moves ----------------------------------------------------------------------------------------------------------


def _move(ctx: Context, source: bytes, target: bytes, items: List, *, left: bool, to_left: bool) -> bytes:
    """Move an element from ``source``, whose list is ``items``, to ``target``."""
    into = list_at(ctx, target)
    element = items.popleft() if left else items.pop()
    _push(ctx, target, [element], left=to_left, items=into, changes=0)
    ctx.effect(b"LMOVE", source, target, _SIDES[not left], _SIDES[not to_left])
    changed(ctx, "l", b"lpop" if left else b"rpop", source, items, 1)
    return element


def _is_left(word: bytes) -> bool:
    if word.upper() not in _SIDES:
        raise CommandError(general.SYNTAX)
    return word.upper() == b"LEFT"


def _move_if_there(ctx: Context, argv: list[bytes], *, left: bool, to_left: bool) -> Reply:
    items = list_at(ctx, argv[1])
    return None if items is None else _move(ctx, argv[1], argv[2], items, left=left, to_left=to_left)


_MOVES = "RW access delete, RW insert"


@list_command(
    "lmove source destination <LEFT|RIGHT> <LEFT|RIGHT>", "write denyoom", keys=_TWO_KEYS, access=_MOVES, since="6.2.0"
)
def lmove(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves an element from one end of a list to one end of another or the same list."""
    return _move_if_there(ctx, argv, left=_is_left(argv[3]), to_left=_is_left(argv[4]))


@list_command("rpoplpush source destination", "write denyoom", keys=_TWO_KEYS, access=_MOVES, since="1.2.0")
def rpoplpush(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves the last element of a list to the beginning of another or the same list."""
    return _move_if_there(ctx, argv, left=False, to_left=True)


# -- waiting --------------------------------------------------------------------------------------------------------


def timeout_in_ms(word: bytes, now: int) -> int:
    """Parse a timeout in seconds into milliseconds; 0 waits indefinitely. ``now`` plus the timeout must fit 64 bits."""
    try:
        seconds = longdouble.parse(word)
    except longdouble.InfiniteError:
        raise CommandError(general.TIMEOUT_NEGATIVE if word.startswith(b"-") else general.TIMEOUT_RANGE) from None
    if seconds is None:
        raise CommandError(general.TIMEOUT_NOT_FLOAT)
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 0:
        raise CommandError(general.TIMEOUT_NEGATIVE)
    if milliseconds > I64_MAX - now:
        raise CommandError(general.TIMEOUT_RANGE)
    return milliseconds


def _blocking_pop(ctx: Context, argv: list[bytes], *, left: bool) -> Reply:
    timeout = timeout_in_ms(argv[-1], ctx.now)
    keys = argv[1:-1]
    for key in keys:
        items = list_at(ctx, key)
        if items:
            return [key, _pop(ctx, key, items, 1, left=left)[0]]
    return ctx.block(argv, keys, timeout, type_name=b"list")


for _name, _left, _summary in (
    (
        "blpop",
        True,
        "Removes and returns the first element of the first non-empty list; waits while all are empty.",
    ),
    (
        "brpop",
        False,
        "Removes and returns the last element of the first non-empty list; waits while all are empty.",
    ),
):
    list_command(
        f"{_name} key [key ...] timeout",
        "write blocking",
        keys=_BLOCKING_KEYS,
        access="RW access delete",
        since="2.0.0",
        complexity="O(keys)",
        summary=_summary,
    )(partial(_blocking_pop, left=_left))


def _blocking_move(ctx: Context, argv: list[bytes], *, left: bool, to_left: bool) -> Reply:
    timeout = timeout_in_ms(argv[-1], ctx.now)
    items = list_at(ctx, argv[1])
    if items is None:
        # In RESP2 a timeout returns a null array. A transaction never waits and returns null.
        return None if ctx.session.in_exec else ctx.block(argv, [argv[1]], timeout, type_name=b"list")
    return _move(ctx, argv[1], argv[2], items, left=left, to_left=to_left)


@list_command(
    "blmove source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout",
    "write denyoom blocking",
    keys=_TWO_KEYS,
    access=_MOVES,
    since="6.2.0",
)
def blmove(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves an element as LMOVE does; waits while the source is empty."""
    return _blocking_move(ctx, argv, left=_is_left(argv[3]), to_left=_is_left(argv[4]))


@list_command(
    "brpoplpush source destination timeout",
    "write denyoom blocking",
    keys=_TWO_KEYS,
    access=_MOVES,
    since="2.2.0",
)
def brpoplpush(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves an element as RPOPLPUSH does; waits while the source is empty."""
    return _blocking_move(ctx, argv, left=False, to_left=True)


# -- several lists ----------------------------------------------------------------------------------------------------


def parse_pop(args: Args, is_first: Callable[[bytes], bool]) -> tuple[list[bytes], bool, int]:
    """Parse ``numkeys key [key ...] end [COUNT count]``.

    Return the keys, ``is_first(end)``, and the count (1 by default). ``is_first`` returns whether ``end`` is the first
    of two words, such as LEFT and RIGHT; it raises CommandError for any other word.
    """
    keys = numbered_keys(args, data.NUMKEYS, general.SYNTAX)
    end, count = is_first(args.take()), 0
    while len(args):
        if count or not args.option(b"COUNT"):
            raise CommandError(general.SYNTAX)
        count = args.take_int(data.POP_COUNT)
        if count < 1:
            raise CommandError(data.POP_COUNT)
    return keys, end, count or 1


def _pop_first(ctx: Context, keys: list[bytes], count: int, *, left: bool) -> Reply:
    """Pop elements of the first existing list; return its key and the elements; None if no list exists."""
    for key in keys:
        items = list_at(ctx, key)
        if items is not None:
            popped = _pop(ctx, key, items, count, left=left)
            return holding([key, paged(popped)])
    return None


@list_command(
    "lmpop numkeys key [key ...] <LEFT|RIGHT> [COUNT count]",
    "write movablekeys",
    keys=Keys(count_at=1),
    access="RW access delete",
    since="7.0.0",
    complexity="O(keys + count)",
)
def lmpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns elements from one end of the first list that is not empty."""
    keys, left, count = parse_pop(Args(argv), _is_left)
    popped = _pop_first(ctx, keys, count, left=left)
    return NIL_ARRAY if popped is None else popped


@list_command(
    "blmpop timeout numkeys key [key ...] <LEFT|RIGHT> [COUNT count]",
    "write blocking movablekeys",
    keys=Keys(count_at=2),
    access="RW access delete",
    since="7.0.0",
    complexity="O(keys + count)",
)
def blmpop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns elements as LMPOP does; waits while all lists are empty."""
    keys, left, count = parse_pop(Args(argv, 2), _is_left)
    timeout = timeout_in_ms(argv[1], ctx.now)
    popped = _pop_first(ctx, keys, count, left=left)
    return ctx.block(argv, keys, timeout, type_name=b"list") if popped is None else popped
