"""Elements of lists: queries, and changes at an index or of all equal elements."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from itertools import islice
from typing import TYPE_CHECKING

from engine.core.commands.data.lists import List, list_at
from engine.core.commands.data.mutations import changed
from engine.core.commands.families import list_command
from engine.core.protocol.args import I64_MIN, Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Reply, paged
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context


#: Number of elements that LPOS searches at once.
_SEARCHED = 5000
#: Maximum number of elements that LREM removes one by one. To remove more, it rebuilds the list.
_FEW = 8


def _read(ctx: Context, key: bytes) -> List | None:
    value: List | None = ctx.db.read_typed(key, deque)
    return value


# -- queries --------------------------------------------------------------------------------------------------------


@list_command("llen key", "readonly fast", access="RO")
def llen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of a list."""
    return len(_read(ctx, argv[1]) or ())


def _bounds(start: int, stop: int, length: int) -> tuple[int, int]:
    """Convert two inclusive indexes to a half-open range. Negative indexes count from the end."""
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
        # Iterating a deque is fast from the nearer end.
        return paged(list(islice(reversed(items), len(items) - high, len(items) - low))[::-1])
    return paged(list(islice(items, low, high)))


@list_command("lindex key index", "readonly", complexity="O(index)")
def lindex(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the element at an index."""
    items = _read(ctx, argv[1])
    if items is None:
        return None
    index = parse_int(argv[2])
    return items[index] if -len(items) <= index < len(items) else None


def _signed(word: bytes) -> int:
    """Parse a number whose sign gives the direction of a search.

    Refuse the smallest integer, which cannot be negated.
    """
    value = parse_int(word)
    if value == I64_MIN:
        raise CommandError(general.WITHOUT_OPPOSITE)
    return value


@list_command(
    "lpos key element [RANK rank] [COUNT num-matches] [MAXLEN len]", "readonly", since="6.0.6", complexity="O(size)"
)
def lpos(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the index of an element equal to the given one, or with COUNT a list of indexes."""
    element = argv[2]
    args = Args(argv, 3)
    rank, count, max_len = 1, -1, 0
    while len(args):
        if args.option(b"RANK"):
            rank = _signed(args.take())
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
    size = min(max_len or length, length)
    if size > _SEARCHED:
        return _search_in_steps(ctx, argv, items, element, size, rank, count)
    walk = enumerate(items) if rank > 0 else ((length - 1 - at, item) for at, item in enumerate(reversed(items)))
    found = (index for index, item in islice(walk, size) if item == element)
    first = islice(found, abs(rank) - 1, None)
    return next(first, None) if count < 0 else list(islice(first, count or None))


def _search_in_steps(
    ctx: Context, argv: list[bytes], items: List, element: bytes, size: int, rank: int, count: int
) -> Reply:
    """Return LPOS's reply for the first ``size`` elements of a long list, or the last ones if ``rank`` is negative."""
    length, skipped = len(items), abs(rank) - 1
    wanted = skipped + (1 if count < 0 else count or size)
    walk = iter(items) if rank > 0 else reversed(items)
    found: list[int] = []

    def has_found(part: list[bytes], before: int) -> bool:
        """Search a part of the list; return whether enough elements have been found."""
        at = 0
        try:
            while len(found) < wanted:
                at = part.index(element, at) + 1
                found.append(before + at - 1)
        except ValueError:
            return False
        return True

    def reply() -> Reply:
        indexes = [at if rank > 0 else length - 1 - at for at in found[skipped:]]
        return paged(indexes) if count >= 0 else next(iter(indexes), None)

    if has_found(list(islice(walk, _SEARCHED)), 0):
        return reply()
    # A copy, because the list may change between the steps. (``islice`` takes twice as long.)
    rest = list(walk) if size == length else list(islice(walk, size - _SEARCHED))

    def work() -> Generator[None, None, Reply]:
        for begin in range(0, len(rest), _SEARCHED):
            if has_found(rest[begin : begin + _SEARCHED], _SEARCHED + begin):
                break
            yield
        return reply()

    return ctx.in_steps(argv, work(), is_apart=True)


def _not_negative(args: Args, error: bytes) -> int:
    value = args.take_int(error)
    if value < 0:
        raise CommandError(error)
    return value


# -- changes in place -----------------------------------------------------------------------------------------------


@list_command("lset key index element", "write denyoom", complexity="O(index)")
def lset(ctx: Context, argv: list[bytes]) -> Reply:
    """Replaces the element at an index."""
    items = list_at(ctx, argv[1])
    if items is None:
        raise CommandError(general.NO_SUCH_KEY)
    index = parse_int(argv[2])
    if not -len(items) <= index < len(items):
        raise CommandError(data.INDEX_RANGE)
    items[index] = argv[3]
    changed(ctx, "l", b"lset", argv[1], items, 1)
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
    """Inserts an element before or after the first element that equals the pivot."""
    side = argv[2].upper()
    if side not in {b"BEFORE", b"AFTER"}:
        raise CommandError(general.SYNTAX)
    items = list_at(ctx, argv[1])
    if items is None:
        return 0
    try:
        items.insert(items.index(argv[3]) + (side == b"AFTER"), argv[4])
    except ValueError:
        return -1
    changed(ctx, "l", b"linsert", argv[1], items, 1)
    ctx.effect(b"LINSERT", *argv[1:])
    return len(items)


@list_command("lrem key count element", "write", access="RW delete", complexity="O(size)")
def lrem(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes elements equal to the given one: count 0 removes all, count N the first N, count -N the last N."""
    key, element = argv[1], argv[3]
    count = _signed(argv[2])
    items = list_at(ctx, key)
    if items is None:
        return 0
    left = abs(count) if count else items.count(element)
    removed = _remove_few(items, element, left, from_end=count < 0) if left <= _FEW else _remove(items, element, count)
    if removed:
        changed(ctx, "l", b"lrem", key, items, removed)
        ctx.effect(b"LREM", *argv[1:])
    return removed


def _remove_few(items: List, element: bytes, most: int, *, from_end: bool) -> int:
    """Remove up to ``most`` equal elements one by one; return the number removed. A search ends at its first match."""
    for removed in range(most):
        if from_end:
            at = next((at for at, item in enumerate(reversed(items)) if item == element), None)
            if at is None:
                return removed
            del items[-1 - at]
        else:
            try:
                items.remove(element)
            except ValueError:
                return removed
    return most


def _remove(items: List, element: bytes, count: int) -> int:
    """Rebuild the list without the elements that LREM removes; return the number of removed elements."""
    left = abs(count) if count else len(items)
    remaining = []
    for item in reversed(items) if count < 0 else items:
        if left and item == element:
            left -= 1
        else:
            remaining.append(item)
    removed = len(items) - len(remaining)
    if removed:
        items.clear()
        items.extend(reversed(remaining) if count < 0 else remaining)
    return removed


@list_command("ltrim key start stop", "write", access="RW delete", complexity="O(removed elements)")
def ltrim(ctx: Context, argv: list[bytes]) -> Reply:
    """Keeps the elements from one index to another, both included, and removes the others."""
    key = argv[1]
    start, stop = parse_int(argv[2]), parse_int(argv[3])
    items = list_at(ctx, key)
    if items is None:
        return OK
    low, high = _bounds(start, stop, len(items))
    length = len(items)
    for _ in range(length - high):
        items.pop()
    for _ in range(min(low, len(items))):
        items.popleft()
    changed(ctx, "l", b"ltrim", key, items, length - len(items))
    ctx.effect(b"LTRIM", *argv[1:])
    return OK
