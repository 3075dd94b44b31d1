"""SORT and SORT_RO: elements of a list, a set or a sorted set, sorted by themselves or by the values of other keys.

With ALPHA, texts are compared bytewise, as in Redis with the C locale. Many elements are sorted in steps, between which
other commands run. The elements reflect one moment, but the keys named by BY and GET are read during the step that
processes the element. With STORE, the log receives the stored list instead of the command.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from engine.core.commands.families import sort_command
from engine.core.keyspace.elements import gathered
from engine.core.keyspace.hash import Hash, live
from engine.core.keyspace.members import Members
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Reply, Steps, paged
from engine.core.table.registry import ONE_KEY, Keys, find
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: More elements than this number are sorted in steps.
_MANY = 5000
#: Number of elements per step.
_AT_ONCE = 2000
#: Number of sorted runs freed at a time.
_FREED_AT_ONCE = 20
#: Maximum elements of a stored list per command in the log.
_IN_EFFECT = 1000
#: Numbers that C's strtod parses completely, except hexadecimal ones and NaN.
_NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?)", re.IGNORECASE)
_first: Any = itemgetter(0)


class _Pattern:
    """A pattern of BY or GET: for each element, the name of a key and optionally a field of the hash at that key."""

    __slots__ = ("_after", "_before", "_field", "_names_keys", "is_element")

    def __init__(self, pattern: bytes) -> None:
        self.is_element = pattern == b"#"
        self._before, star, rest = pattern.partition(b"*")
        self._names_keys = bool(star)
        self._after, _, self._field = rest.partition(b"->")
        if not self._field:
            self._after = rest

    def value(self, ctx: Context, element: bytes) -> bytes | None:
        """Return the value at the key or field; None if it is missing or of another type."""
        if self.is_element:
            return element
        if not self._names_keys:
            return None
        value = ctx.db.read(self._before + element + self._after)
        if self._field:
            return live(value, ctx.now).get(self._field) if type(value) is Hash else None
        return bytes(value) if isinstance(value, bytes | bytearray) else None


class _Options:
    """The parsed options of SORT and SORT_RO."""

    def __init__(self, ctx: Context, argv: list[bytes], *, may_store: bool) -> None:
        self.by: _Pattern | None = None
        self.sorts = True
        self.get: list[_Pattern] = []
        self.descending = self.alpha = False
        self.target: bytes | None = None
        self._offset, self._count = 0, -1
        args = Args(argv, 2)
        while len(args):
            if args.flag(b"ASC"):
                self.descending = False
            elif args.flag(b"DESC"):
                self.descending = True
            elif args.flag(b"ALPHA"):
                self.alpha = True
            elif len(args) > 2 and args.flag(b"LIMIT"):
                self._offset, self._count = args.take_int(), args.take_int()
            elif may_store and args.option(b"STORE"):
                self.target = args.take()
            elif args.option(b"BY"):
                self._parse_by(ctx, argv, args.take())
            elif args.option(b"GET"):
                _check_rights(ctx, argv, data.SORT_GET_DENIED)
                self.get.append(_Pattern(args.take()))
            else:
                raise CommandError(general.SYNTAX)

    def _parse_by(self, ctx: Context, argv: list[bytes], pattern: bytes) -> None:
        if b"*" in pattern:
            _check_rights(ctx, argv, data.SORT_BY_DENIED)
            self.by = _Pattern(pattern)
        else:
            # A pattern with the same key for every element disables sorting.
            self.sorts = False

    def limits(self, length: int) -> tuple[int, int]:
        """Return LIMIT's start and end in a sequence of this length."""
        start = max(self._offset, 0)
        stop = length if self._count < 0 else min(start + self._count, length)
        return start, max(stop, start)


def _check_rights(ctx: Context, argv: list[bytes], error: bytes) -> None:
    """Raise ``error`` if the user may not read all keys: the keys of BY and GET are not known in advance."""
    session = ctx.session
    if session.limited:
        command = find(argv[0])
        if command is None or not session.user.may_read_all(command, argv):
            raise CommandError(error)


# -- sorting ----------------------------------------------------------------------------------------------------------


def _number(word: bytes) -> float:
    word = word.partition(b"\0")[0]
    if not word:
        return 0.0
    if _NUMBER.fullmatch(word) is None:
        raise CommandError(data.NOT_A_SCORE)
    return float(word)


def _weighed(ctx: Context, options: _Options, words: list[bytes]) -> list[Any]:
    """Return (sort value, word) pairs; with ALPHA and without BY, return only the words."""
    by = options.by
    if options.alpha:
        if by is None:
            return words
        weights = [by.value(ctx, word) for word in words]
        return [((weight is not None, weight or b""), word) for weight, word in zip(weights, words, strict=True)]
    if by is None:
        return [(_number(word), word) for word in words]
    return [(_number(by.value(ctx, word) or b""), word) for word in words]


def _ordered(
    ctx: Context, options: _Options, words: list[bytes], runs: list[list[Any]]
) -> Generator[None, None, Iterator[bytes]]:
    """Move the words into sorted ``runs`` and return them merged. Keep ``runs`` until the result has been consumed."""
    # Elements with equal numbers are sorted bytewise. With BY and ALPHA, elements with equal values keep their order.
    key = _first if options.alpha and options.by is not None else None
    down = options.descending
    words.reverse()
    while words:
        runs.append(sorted(_weighed(ctx, options, words[: -_AT_ONCE - 1 : -1]), key=key, reverse=down))
        # Freeing all words at the end would block the server.
        del words[-_AT_ONCE:]
        yield
    merged = merge(*runs, key=key, reverse=down) if len(runs) > 1 else iter(runs[0] if runs else ())
    return iter(merged) if options.alpha and options.by is None else (word for _, word in merged)


def _found(value: Any, options: _Options) -> list[bytes] | Generator[None, None, list[list[bytes]]]:
    """Return the elements of a value, in steps for a large set.

    Without sorting, apply LIMIT to a list or a sorted set here. A sorted set is then in the order of its scores.
    """
    if type(value) is Members:
        return value.shown() if len(value) <= _MANY else gathered(iter(value))
    if options.sorts or value is None:
        return list(value or ())
    start, stop = options.limits(len(value))
    if type(value) is SortedSet:
        pairs = reversed(value.order) if options.descending else value.order
        return [member for _, member in islice(pairs, start, stop)]
    return list(islice(reversed(value) if options.descending else value, start, stop))


def _joined(parts: list[list[bytes]]) -> Generator[None, None, list[bytes]]:
    """Return the words of all parts, the last part first, and remove the parts."""
    words: list[bytes] = []
    while parts:
        words += parts.pop()
        if not len(parts) % _FREED_AT_ONCE:
            yield
    return words


def _results(
    ctx: Context, options: _Options, found: list[bytes] | Generator[None, None, list[list[bytes]]], *, is_set: bool
) -> Generator[None, None, list[bytes | None]]:
    """Return the results that SORT returns or stores."""
    words = found if isinstance(found, list) else (yield from _joined((yield from found)))
    ordered: Iterable[bytes] = words
    runs: list[list[Any]] = []
    count = len(words)
    start, stop = 0, count
    if options.sorts:
        ordered = yield from _ordered(ctx, options, words, runs)
    if options.sorts or is_set:
        start, stop = options.limits(count)
    ordered = islice(ordered, start, stop)
    results: list[bytes | None] = []
    while part := list(islice(ordered, _AT_ONCE)):
        results += [pattern.value(ctx, word) for word in part for pattern in options.get] if options.get else part
        yield
    del ordered
    while runs:
        # Freeing all runs at once would block the server.
        del runs[-_FREED_AT_ONCE:]
        yield
    return results


def _store(ctx: Context, target: bytes, results: list[bytes | None]) -> Generator[None, None, int]:
    """Store the results as a list, built in steps before it becomes visible; return its length."""
    items: deque[bytes] = deque()
    parts: list[list[bytes]] = []
    results.reverse()
    while results:
        parts.append([word or b"" for word in results[: -_IN_EFFECT - 1 : -1]])
        del results[-_IN_EFFECT:]
        items += parts[-1]
        if len(items) % _AT_ONCE < _IN_EFFECT:
            yield
    db = ctx.db
    if not items:
        if db.delete(target):
            ctx.effect(b"DEL", target)
            ctx.changes.notify("g", b"del", target, db.index)
        return 0
    if db.get(target) is not None:
        ctx.effect(b"DEL", target)
    db.report_overwritten(target, db.set(target, items, changes=len(items)), items)
    ctx.changes.notify("l", b"sortstore", target, db.index)
    count = len(items)
    for part in parts:
        ctx.effect(b"RPUSH", target, *part)
    while parts:
        # Freeing all parts at once would block the server.
        del parts[-_FREED_AT_ONCE:]
        yield
    return count


def _sort(ctx: Context, argv: list[bytes], *, may_store: bool) -> Reply:
    options = _Options(ctx, argv, may_store=may_store)
    value = ctx.db.read(argv[1])
    if value is not None and type(value) not in (deque, Members, SortedSet):
        raise CommandError(general.WRONG_TYPE)

    is_set = type(value) is Members
    if is_set and options.target is not None and not options.sorts:
        # Sort anyway, so that the stored order is deterministic.
        options.sorts = options.alpha = True
    found = _found(value, options)

    def work() -> Generator[None, None, Reply]:
        results = yield from _results(ctx, options, found, is_set=is_set)
        if options.target is None:
            return paged(cast(list[Reply], results))
        return (yield from _store(ctx, options.target, results))

    if len(value or ()) <= _MANY:
        return Steps(argv, work()).all()
    return ctx.in_steps(argv, work(), is_apart=options.target is None and isinstance(found, list))


def _keys(argv: list[bytes]) -> list[bytes]:
    """Return the key, and the key of the last STORE."""
    keys, at = argv[1:2], 2
    while at < len(argv):
        word = argv[at].upper()
        if word == b"STORE" and at + 1 < len(argv):
            keys[1:] = [argv[at + 1]]
        at += {b"LIMIT": 3, b"BY": 2, b"GET": 2, b"STORE": 2}.get(word, 1)
    return keys


_SYNTAX = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]"
_COST = "O(N log N) with N elements, O(N) if they are not sorted"
sort_command(
    f"sort {_SYNTAX} [STORE destination]",
    "write denyoom movablekeys",
    keys=Keys(1, 1, 1, find=_keys),
    access="RO access, OW update",
    complexity=_COST,
    summary="Returns the elements of a list, a set or a sorted set in order, or stores them as a list.",
)(partial(_sort, may_store=True))
sort_command(
    f"sort_ro {_SYNTAX}",
    "readonly movablekeys",
    keys=ONE_KEY,
    since="7.0.0",
    complexity=_COST,
    summary="Returns the elements of a list, a set or a sorted set in order.",
)(partial(_sort, may_store=False))
