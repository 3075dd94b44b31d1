"""Members of sorted sets: adding, scoring, removing and querying them, individually and at random.

ZADD and ZREM with many members run in steps. Each step is atomic and logged separately.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.commands.data import long_reads
from engine.core.commands.data.many_words import counted
from engine.core.commands.data.mutations import changed
from engine.core.commands.data.random_counts import parse_draws
from engine.core.commands.data.scan import parse_cursor, parse_scan_options, scan_reply
from engine.core.commands.data.sorted_sets.ranges import in_pages, pages_of
from engine.core.commands.data.sorted_sets.values import AT_ONCE, read_sorted_set, shown, sorted_set_at
from engine.core.commands.families import sorted_set_command
from engine.core.keyspace.elements import gathered_parts, in_parts
from engine.core.keyspace.order import Pair
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.protocol.args import Args
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Reply
from engine.text import doubles
from engine.text.globs import matcher
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Number of look-ups that take as long as a random draw.
_PER_DRAW = 9

# -- adding -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Conditions under which ZADD adds or changes members."""

    only_new: bool = False
    only_existing: bool = False
    only_greater: bool = False
    only_less: bool = False


_UNCONDITIONAL = _Conditions()


def _parse_conditions(args: Args) -> tuple[_Conditions, bool, bool]:
    """Parse ZADD's options: the conditions, whether to count changed members, and whether the score is an increment."""
    new = existing = greater = less = changed = increment = False
    while len(args):
        if args.flag(b"NX"):
            new = True
        elif args.flag(b"XX"):
            existing = True
        elif args.flag(b"CH"):
            changed = True
        elif args.flag(b"INCR"):
            increment = True
        elif args.flag(b"GT"):
            greater = True
        elif args.flag(b"LT"):
            less = True
        else:
            break
    return _Conditions(new, existing, greater, less), changed, increment


def _score(word: bytes) -> float:
    score = doubles.parse(word)
    if score is None:
        raise CommandError(general.NOT_A_FLOAT)
    return score


def _is_change(members: SortedSet | None, member: bytes, score: float, when: _Conditions) -> bool:
    """Return whether ZADD adds the member or changes its score."""
    former = None if members is None else members.get(member)
    if former is None:
        return not when.only_existing
    if when.only_new or (when.only_greater and score <= former) or (when.only_less and score >= former):
        return False
    return score != former


def _add(ctx: Context, key: bytes, pairs: Iterable[Pair], when: _Conditions, hint: int) -> tuple[int, int]:
    """Add members or change their scores; return the numbers of new and of changed members.

    ``hint`` is the number of members in the command.
    """
    members = ctx.db.typed(key, SortedSet)
    limits = ctx.sorted_set_limits
    if members is None:
        if when.only_existing:
            return 0, 0
        members = SortedSet()
        ctx.db.add(key, members, changes=0)
    members.expect(hint, limits)
    added = updated = 0
    if when is _UNCONDITIONAL:
        for score, member in pairs:
            is_new = members.put(member, score, limits)
            if is_new:
                added += 1
            elif is_new is not None:
                updated += 1
    else:
        for score, member in pairs:
            if _is_change(members, member, score, when):
                if members.put(member, score, limits):
                    added += 1
                else:
                    updated += 1
    if added or updated:
        ctx.db.changed(key, "z", b"zadd", added + updated)
    return added, updated


def _increment(ctx: Context, key: bytes, by: float, member: bytes, when: _Conditions) -> float | None:
    """Increment a member's score; a new member starts at 0. Return the new score, or None if the conditions fail."""
    members = sorted_set_at(ctx, key)
    former = None if members is None else members.get(member)
    if when.only_existing if former is None else when.only_new:
        return None
    score = by if former is None else former + by
    if math.isnan(score):
        raise CommandError(data.SCORE_NAN)
    if former is not None and ((when.only_greater and score <= former) or (when.only_less and score >= former)):
        return None
    if score == former:
        return score
    if members is None:
        members = SortedSet()
        ctx.db.add(key, members, changes=0)
    members.put(member, score, ctx.sorted_set_limits)
    ctx.db.touch(key)
    ctx.changes.notify("z", b"zincr", key, ctx.db.index)
    ctx.effect(b"ZINCRBY", key, doubles.text(by), member)
    return score


@sorted_set_command(
    "zadd key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
    "write denyoom fast",
    complexity="O(members * log(size))",
)
def zadd(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds members to a sorted set or changes their scores.

    Returns the number of new members; with CH, the number of new and changed members; with INCR, the new score.
    """
    key, first = argv[1], 2
    when, count_changes, increment = _UNCONDITIONAL, False, False
    if not argv[2][:1].isdigit():
        args = Args(argv, 2)
        given, count_changes, increment = _parse_conditions(args)
        when, first = when if given == when else given, args.pos
    words = len(argv) - first
    if words % 2 or not words:
        raise CommandError(general.SYNTAX)
    if when is not _UNCONDITIONAL:
        if when.only_new and when.only_existing:
            raise CommandError(data.XX_AND_NX)
        if when.only_new + when.only_greater + when.only_less > 1:
            raise CommandError(data.GT_LT_NX)
    if increment:
        if words > 2:
            raise CommandError(data.INCR_PAIRS)
        return _increment(ctx, key, _score(argv[first]), argv[first + 1], when)
    count = words // 2
    if count <= AT_ONCE:
        pairs = []
        for at in range(first, len(argv), 2):
            pairs.append((_score(argv[at]), argv[at + 1]))  # noqa: PERF401 - slower
        added, updated = _add(ctx, key, pairs, when, count)
        if (added or updated) and ctx.changes.recording:
            ctx.effect(b"ZADD", *argv[1:])
        return added + updated if count_changes else added

    def work() -> Generator[None, None, Reply]:
        scores: list[float] = []
        for at in range(first, len(argv), 2 * AT_ONCE):
            scores += map(_score, argv[at : at + 2 * AT_ONCE : 2])
            yield
        done = 0
        for number in range(0, count, AT_ONCE):
            part = argv[first + 2 * number : first + 2 * (number + AT_ONCE)]
            pairs = list(zip(scores[number : number + AT_ONCE], part[1::2], strict=True))
            added, updated = _add(ctx, key, pairs, when, count)
            done += added + updated if count_changes else added
            if added or updated:
                ctx.effect(b"ZADD", *argv[1:first], *part)
            yield
        return done

    return ctx.in_steps(argv, work())


@sorted_set_command(
    "zincrby key increment member", "write denyoom fast", access="RW access update", complexity="O(log(size))"
)
def zincrby(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the score of a member of a sorted set."""
    return _increment(ctx, argv[1], _score(argv[2]), argv[3], _UNCONDITIONAL)


# -- removing ---------------------------------------------------------------------------------------------------------


@sorted_set_command(
    "zrem key member [member ...]", "write fast", access="RW delete", complexity="O(members * log(size))"
)
def zrem(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes members of a sorted set, and returns how many existed."""
    if len(argv) > AT_ONCE + 2:
        return counted(ctx, argv, 2, zrem, AT_ONCE)
    key = argv[1]
    members = sorted_set_at(ctx, key)
    if members is None:
        return 0
    removed = [word for word in argv[2:] if members.remove(word)]
    if removed:
        ctx.effect(b"ZREM", key, *removed)
        changed(ctx, "z", b"zrem", key, members, len(removed))
    return len(removed)


# -- queries ----------------------------------------------------------------------------------------------------------


@sorted_set_command("zcard key", "readonly fast", access="RO")
def zcard(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of members of a sorted set."""
    return len(read_sorted_set(ctx, argv[1]))


@sorted_set_command("zscore key member", "readonly fast")
def zscore(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the score of a member of a sorted set."""
    return read_sorted_set(ctx, argv[1]).get(argv[2])


@sorted_set_command("zmscore key member [member ...]", "readonly fast", since="6.2.0", complexity="O(members)")
def zmscore(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the scores of several members of a sorted set."""
    members, names = read_sorted_set(ctx, argv[1]), argv[2:]
    if len(names) <= long_reads.MANY:
        return list(map(members.get, names))
    return long_reads.in_pages(ctx, argv, list, map(members.get, names))


def _rank(ctx: Context, argv: list[bytes], *, reverse: bool) -> Reply:
    if len(argv) > 4:
        raise CommandError(general.wrong_arity(argv[0].lower()))
    if len(argv) == 4 and argv[3].upper() != b"WITHSCORE":
        raise CommandError(general.SYNTAX)
    members = read_sorted_set(ctx, argv[1])
    member = argv[2]
    if member not in members:
        return None if len(argv) == 3 else NIL_ARRAY
    rank = members.rank(member)
    if reverse:
        rank = len(members) - 1 - rank
    return rank if len(argv) == 3 else [rank, members[member]]


@sorted_set_command("zrank key member [WITHSCORE]", "readonly fast", since="2.0.0", complexity="O(log(size))")
def zrank(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the rank of a member of a sorted set, lowest score first."""
    return _rank(ctx, argv, reverse=False)


@sorted_set_command("zrevrank key member [WITHSCORE]", "readonly fast", since="2.0.0", complexity="O(log(size))")
def zrevrank(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the rank of a member of a sorted set, highest score first."""
    return _rank(ctx, argv, reverse=True)


@sorted_set_command(
    "zscan key cursor [MATCH pattern] [COUNT count]", "readonly", since="2.8.0", complexity="O(COUNT) per step"
)
def zscan(ctx: Context, argv: list[bytes]) -> Reply:
    """Iterates over a sorted set in steps; all members that exist during the whole iteration are returned."""
    cursor = parse_cursor(argv[2])
    members = read_sorted_set(ctx, argv[1])
    if not members:
        return [b"0", []]
    pattern, count, _, names_only = parse_scan_options(Args(argv, 3), of_fields=True)
    if names_only:
        raise CommandError(data.NOVALUES_OF_KEYS)

    # Redis formats the scores of large sorted sets differently in ZSCAN.
    text = doubles.long_text if members.big else doubles.text

    def found(names: list[bytes]) -> list[Reply]:
        matching = names if pattern == b"*" else filter(matcher(pattern), names)
        return [word for name in matching for word in (name, text(members[name]))]

    if members.big:
        return scan_reply(ctx, argv, cursor, count, members.names.walk, found)
    return [b"0", found([member for member, _ in members.shown()])]


def _all(members: SortedSet) -> tuple[int, int]:
    return 0, len(members)


@sorted_set_command(
    "zrandmember key [count [WITHSCORES]]", "readonly", since="6.2.0", complexity="O(count * log(size))"
)
def zrandmember(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns random members of a sorted set; a negative count allows repetitions."""
    pick = ctx.changes.pick
    if len(argv) == 2:
        members = read_sorted_set(ctx, argv[1])
        return members.order[pick(len(members))][1] if members else None
    count, with_scores = parse_draws(argv, b"WITHSCORES")
    members = read_sorted_set(ctx, argv[1])
    if not members:
        return []
    if count >= len(members):
        return in_pages(ctx, argv, members, _all, reverse=True, with_scores=with_scores)
    in_pairs = ctx.resp3
    if abs(count) <= AT_ONCE:
        return shown(members.draws_of_pairs(count, pick), with_scores=with_scores, in_pairs=in_pairs)
    parts = in_parts(members.draws_of_pairs(count, pick), _PER_DRAW)

    def work() -> Generator[None, None, Reply]:
        return pages_of((yield from gathered_parts(parts)), with_scores=with_scores, in_pairs=in_pairs)

    return ctx.in_steps(argv, work())
