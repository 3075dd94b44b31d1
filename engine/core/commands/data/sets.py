"""Sets: their members, individually and at random. Operations on several sets are in ``set_algebra``."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from engine.core.commands.data import many_words
from engine.core.commands.data.long_reads import MANY, PER_DRAW, in_pages, number_of_draws
from engine.core.commands.data.mutations import changed, delete_whole
from engine.core.commands.data.scan import parse_cursor, parse_scan_options, scan_reply
from engine.core.commands.families import set_command
from engine.core.keyspace.members import Members
from engine.core.protocol.args import I64_MAX, I64_MIN, Args, parse_int
from engine.core.protocol.replies import CommandError, Reply, Set, paged
from engine.core.table.registry import Keys
from engine.text.globs import matcher
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Maximum members popped per step.
_AT_ONCE = 1000
#: Maximum number of members that SRANDMEMBER draws with repetition.
_MOST_DRAWS = 1_000_000


def read_set(ctx: Context, key: bytes) -> Members:
    """Return the set at ``key`` for reading; an empty set if the key does not exist."""
    value: Members | None = ctx.db.read_typed(key, Members)
    return value if value is not None else Members()


def _set(ctx: Context, key: bytes) -> Members | None:
    value: Members | None = ctx.db.typed(key, Members)
    return value


# -- members ----------------------------------------------------------------------------------------------------------


def _add(ctx: Context, key: bytes, members: Members | None, words: list[bytes]) -> int:
    """Add ``words`` to ``members``, the set at ``key`` (None: create it); return the number of new members."""
    limits = ctx.set_limits
    if members is None:
        members = Members()
        members.expect(len(words), limits)
        ctx.db.add(key, members, changes=0)
    new = 0
    for word in words:
        new += members.put(word, limits)
    if new:
        ctx.db.changed(key, "s", b"sadd", new)
    return new


@set_command("sadd key member [member ...]", "write denyoom fast", access="RW insert", complexity="O(members)")
def sadd(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds members to a set, and returns how many of them are new."""
    if len(argv) > many_words.MANY:
        return many_words.counted(ctx, argv, 2, sadd)
    key = argv[1]
    new = _add(ctx, key, ctx.db.typed(key, Members), argv[2:])
    if new and ctx.changes.recording:
        ctx.effect(b"SADD", *argv[1:])
    return new


@set_command("srem key member [member ...]", "write fast", access="RW delete", complexity="O(members)")
def srem(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes members of a set, and returns how many existed."""
    if len(argv) > many_words.MANY:
        return many_words.counted(ctx, argv, 2, srem)
    key, members = argv[1], _set(ctx, argv[1])
    if members is None:
        return 0
    removed = [member for member in argv[2:] if members.remove(member)]
    if removed:
        ctx.effect(b"SREM", key, *removed)
        changed(ctx, "s", b"srem", key, members, len(removed))
    return len(removed)


@set_command("smove source destination member", "write fast", keys=Keys(1, 2, 1), access="RW access delete, RW insert")
def smove(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves a member from one set to another."""
    _, source, target, member = argv
    # Redis looks up both keys first, so either may expire even if the command then fails.
    ctx.db.get(source)
    ctx.db.get(target)
    members = _set(ctx, source)
    if members is None:
        return 0
    into = _set(ctx, target)
    if member not in members or source == target:
        return int(member in members)
    members.remove(member)
    changed(ctx, "s", b"srem", source, members, 1)
    _add(ctx, target, into, [member])
    ctx.effect(b"SMOVE", source, target, member)
    return 1


@set_command("scard key", "readonly fast", access="RO")
def scard(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of members of a set."""
    return len(read_set(ctx, argv[1]))


@set_command("sismember key member", "readonly fast", access="RO")
def sismember(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns whether a set has a member."""
    return int(argv[2] in read_set(ctx, argv[1]))


@set_command("smismember key member [member ...]", "readonly fast", since="6.2.0", complexity="O(members)")
def smismember(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns, for each given member, whether it is in a set."""
    members, words = read_set(ctx, argv[1]), argv[2:]
    if len(words) <= MANY:
        return [int(word in members) for word in words]
    return in_pages(ctx, argv, list, (int(word in members) for word in words))


@set_command("smembers key", "readonly", complexity="O(size)")
def smembers(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all members of a set."""
    return _all(ctx, argv, read_set(ctx, argv[1]))


def _all(ctx: Context, argv: list[bytes], members: Members) -> Reply:
    return Set(members.shown()) if len(members) <= MANY else in_pages(ctx, argv, Set, iter(members))


@set_command(
    "sscan key cursor [MATCH pattern] [COUNT count]", "readonly", since="2.8.0", complexity="O(COUNT) per step"
)
def sscan(ctx: Context, argv: list[bytes]) -> Reply:
    """Iterates over a set in steps; all members that exist during the whole iteration are returned."""
    cursor = parse_cursor(argv[2])
    members = read_set(ctx, argv[1])
    if not members:
        return [b"0", []]
    pattern, count, _, names_only = parse_scan_options(Args(argv, 3), of_fields=True)
    if names_only:
        raise CommandError(data.NOVALUES_OF_KEYS)

    def found(words: list[bytes]) -> list[Reply]:
        return list(words if pattern == b"*" else filter(matcher(pattern), words))

    if members.is_table:
        return scan_reply(ctx, argv, cursor, count, members.names.walk, found)
    return [b"0", found(members.shown())]


# -- random -----------------------------------------------------------------------------------------------------------


@set_command("spop key [count]", "write fast", access="RW access delete", complexity="O(count)")
def spop(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes and returns random members of a set."""
    if len(argv) > 3:
        raise CommandError(general.SYNTAX)
    key = argv[1]
    if len(argv) == 2:
        members = ctx.db.typed(key, Members)
        if members is None:
            return None
        member = members.names.draw_one(ctx.changes.pick)
        _remove_popped(ctx, key, members, [member])
        return member
    count = parse_int(argv[2], general.NOT_POSITIVE)
    if count < 0:
        raise CommandError(general.NOT_POSITIVE)
    members = _set(ctx, key)
    if members is None or not count:
        return Set()
    if count >= len(members):
        return _pop_all(ctx, argv, members)
    if count <= _AT_ONCE:
        return Set(_pop(ctx, key, members, count))

    def work() -> Generator[None, None, Reply]:
        popped: list[bytes] = []
        for done in range(0, count, _AT_ONCE):
            popped += _pop(ctx, key, members, min(count - done, _AT_ONCE))
            yield
        return paged(Set(popped))

    return ctx.in_steps(argv, work())


def _pop(ctx: Context, key: bytes, members: Members, count: int) -> list[bytes]:
    popped = members.drawn(min(count, len(members)), ctx.changes.pick)
    _remove_popped(ctx, key, members, popped)
    return popped


def _remove_popped(ctx: Context, key: bytes, members: Members, popped: list[bytes]) -> None:
    for member in popped:
        members.remove(member)
    if ctx.changes.recording:
        ctx.effect(b"SREM", key, *popped)
    changed(ctx, "s", b"spop", key, members, len(popped))


def _pop_all(ctx: Context, argv: list[bytes], members: Members) -> Reply:
    """Remove and return the whole set."""
    key = argv[1]
    reply = _all(ctx, argv, members)
    delete_whole(ctx, "s", b"spop", key, members)
    return reply


@set_command("srandmember key [count]", "readonly", complexity="O(count)")
def srandmember(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns random members of a set; a negative count allows repetitions."""
    if len(argv) > 3:
        raise CommandError(general.SYNTAX)
    if len(argv) == 2:
        members = read_set(ctx, argv[1])
        return members.names.draw_one(ctx.changes.pick) if members else None
    count = parse_int(argv[2], general.NOT_AN_INTEGER)
    if count == I64_MIN:
        raise CommandError(general.out_of_range(-I64_MAX, I64_MAX))
    if count < -_MOST_DRAWS:
        # Redis has no such limit, and builds replies regardless of memory and time.
        raise CommandError(general.out_of_range(-_MOST_DRAWS, I64_MAX))
    members = read_set(ctx, argv[1])
    pick = ctx.changes.pick
    if members and number_of_draws(count, len(members)) > MANY:
        return in_pages(ctx, argv, list, members.draws(count, pick), PER_DRAW)
    return members.drawn(count, pick) if members else []
