"""Hashes. ``engine.core.keyspace.hash.Hash`` defines the order of fields in replies, and HSCAN's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from engine.core.commands.data import many_words
from engine.core.commands.data.long_reads import MANY, PER_DRAW, in_pages, number_of_draws
from engine.core.commands.data.mutations import drop_key
from engine.core.commands.data.random_counts import parse_draws
from engine.core.commands.data.scan import parse_cursor, parse_scan_options, scan_reply
from engine.core.commands.data.strings.counters import sum_of_floats
from engine.core.commands.families import hash_command
from engine.core.keyspace.hash import Fields, Hash, LiveFields, live
from engine.core.protocol.args import I64_MAX, I64_MIN, Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Reply
from engine.text import longdouble
from engine.text.globs import matcher
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context


def hash_at(ctx: Context, key: bytes, names: Iterable[bytes]) -> Hash | None:
    """Prepare a change of the fields ``names`` at ``key``: remove those that have expired, and return the hash.

    While expiry is held, remove nothing. Return None if the key does not exist or if no field is left.
    """
    value: Hash | None = ctx.db.typed(key, Hash)
    if value is None or not value.deadlines or value.next_deadline() > ctx.now or ctx.changes.replaying:
        return value
    due = [name for name in dict.fromkeys(names) if value.is_due(name, ctx.now)]
    if due and ctx.changes.expiry_held_until <= ctx.now:
        ctx.db.drop_fields(key, value, due)
    return value or None


def read_hash(ctx: Context, key: bytes) -> Fields:
    """Return the hash at ``key`` without expired fields; an empty hash if the key does not exist."""
    value: Hash | None = ctx.db.read_typed(key, Hash)
    return live(value, ctx.now) if value is not None else Hash()


def put_fields(ctx: Context, key: bytes, pairs: list[bytes], event: bytes, *, keep_ttl: bool = False) -> int:
    """Set fields and log an HSET; return the number of new fields. Remove the fields' expiry unless ``keep_ttl``."""
    fields: Hash | None = ctx.db.typed(key, Hash)
    if fields is not None and fields.deadlines:
        fields = hash_at(ctx, key, pairs[::2])
    if fields is None:
        fields = Hash()
        ctx.db.add(key, fields, changes=0)
    limits, new = ctx.hash_limits, 0
    for at in range(0, len(pairs), 2):
        new += fields.put(pairs[at], pairs[at + 1], limits)
    ctx.db.changed(key, "h", event, len(pairs) // 2)
    if ctx.changes.recording:
        ctx.effect(b"HSET", key, *pairs)
    if fields.deadlines:
        _follow_deadlines(ctx, key, fields, pairs[::2], keep_ttl=keep_ttl)
    return new


def _follow_deadlines(ctx: Context, key: bytes, fields: Hash, names: list[bytes], *, keep_ttl: bool) -> None:
    """Remove the deadlines of fields that were set.

    With ``keep_ttl``, keep the deadlines, and log them again, because a replay of the HSET removes them.
    """
    for name in names:
        deadline = (fields.deadlines or {}).get(name)
        if deadline is not None and keep_ttl:
            ctx.effect(b"HPEXPIREAT", key, b"%d" % deadline, b"FIELDS", b"1", name)
        elif deadline is not None:
            fields.set_deadline(name, None)


def _set_fields(ctx: Context, argv: list[bytes]) -> int:
    if len(argv) % 2:
        raise CommandError(general.wrong_arity(argv[0].lower()))
    return put_fields(ctx, argv[1], argv[2:], b"hset")


@hash_command("hset key field value [field value ...]", "write denyoom fast", complexity="O(fields)")
def hset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets fields of a hash, and returns how many of them are new."""
    if len(argv) > many_words.MANY and not len(argv) % 2:
        return many_words.counted(ctx, argv, 2, hset)
    return _set_fields(ctx, argv)


@hash_command("hmset key field value [field value ...]", "write denyoom fast", complexity="O(fields)")
def hmset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets fields of a hash."""
    _set_fields(ctx, argv)
    return OK


@hash_command("hsetnx key field value", "write denyoom fast", access="RW insert")
def hsetnx(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a field of a hash unless it exists."""
    if argv[2] in (hash_at(ctx, argv[1], argv[2:3]) or ()):
        return 0
    return put_fields(ctx, argv[1], argv[2:], b"hset")


@hash_command("hget key field", "readonly fast")
def hget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the value of a field of a hash."""
    return read_hash(ctx, argv[1]).get(argv[2])


@hash_command("hmget key field [field ...]", "readonly fast", complexity="O(fields)")
def hmget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the values of several fields of a hash."""
    fields, names = read_hash(ctx, argv[1]), argv[2:]
    if len(names) <= MANY:
        return list(map(fields.get, names))
    return in_pages(ctx, argv, list, map(fields.get, names))


@hash_command("hgetall key", "readonly", complexity="O(size)")
def hgetall(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all fields of a hash with their values."""
    fields = read_hash(ctx, argv[1])
    return Map(_pairs(fields)) if len(fields) <= MANY else in_pages(ctx, argv, Map, _pairs(fields))


def _pairs(fields: Fields) -> Iterator[bytes]:
    return chain.from_iterable(fields.items())


@hash_command("hkeys key", "readonly", complexity="O(size)")
def hkeys(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all fields of a hash."""
    fields = read_hash(ctx, argv[1])
    return list(fields) if len(fields) <= MANY else in_pages(ctx, argv, list, iter(fields))


@hash_command("hvals key", "readonly", complexity="O(size)")
def hvals(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all values of a hash."""
    fields = read_hash(ctx, argv[1])
    return list(fields.values()) if len(fields) <= MANY else in_pages(ctx, argv, list, iter(fields.values()))


@hash_command("hlen key", "readonly fast", access="RO")
def hlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of fields of a hash."""
    return len(read_hash(ctx, argv[1]))


@hash_command("hexists key field", "readonly fast", access="RO")
def hexists(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns whether a field of a hash exists."""
    return int(argv[2] in read_hash(ctx, argv[1]))


@hash_command("hstrlen key field", "readonly fast", access="RO", since="3.2.0")
def hstrlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of a field's value."""
    return len(read_hash(ctx, argv[1]).get(argv[2]) or b"")


@hash_command("hdel key field [field ...]", "write fast", access="RW delete", complexity="O(fields)")
def hdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes fields of a hash, and returns how many existed."""
    if len(argv) > many_words.MANY:
        return many_words.counted(ctx, argv, 2, hdel)
    key, db = argv[1], ctx.db
    fields = hash_at(ctx, key, argv[2:])
    if fields is None:
        return 0
    removed = [field for field in argv[2:] if fields.remove(field)]
    if removed:
        db.touch(key, changes=len(removed))
        ctx.changes.notify("h", b"hdel", key, db.index)
        ctx.effect(b"HDEL", key, *removed)
        if not fields:
            drop_key(ctx, key)
    return len(removed)


@hash_command("hincrby key field increment", "write denyoom fast", access="RW access update")
def hincrby(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the integer in a field of a hash."""
    key, field = argv[1], argv[2]
    by = parse_int(argv[3])
    fields = hash_at(ctx, key, [field]) or Hash()
    result = parse_int(fields.get(field, b"0"), data.HASH_NOT_AN_INTEGER) + by
    if not I64_MIN <= result <= I64_MAX:
        raise CommandError(data.OVERFLOW)
    put_fields(ctx, key, [field, b"%d" % result], b"hincrby", keep_ttl=True)
    return result


@hash_command("hincrbyfloat key field increment", "write denyoom fast", access="RW access update", since="2.6.0")
def hincrbyfloat(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the floating-point number in a field of a hash."""
    key, field = argv[1], argv[2]
    try:
        by = longdouble.parse(argv[3])
    except longdouble.InfiniteError:
        raise CommandError(data.INCREMENT_NOT_FINITE) from None
    if by is None:
        raise CommandError(general.NOT_A_FLOAT)
    fields = hash_at(ctx, key, [field]) or Hash()
    word = fields.get(field, b"0")
    try:
        number = longdouble.parse(word)
    except longdouble.InfiniteError:
        raise CommandError(data.NOT_FINITE) from None
    result = longdouble.text(sum_of_floats(number, by, data.HASH_NOT_A_FLOAT))
    put_fields(ctx, key, [field, result], b"hincrbyfloat", keep_ttl=True)
    return result


@hash_command(
    "hscan key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
    "readonly",
    since="2.8.0",
    complexity="O(COUNT) per step",
)
def hscan(ctx: Context, argv: list[bytes]) -> Reply:
    """Iterates over a hash in steps; all fields that exist during the whole iteration are returned."""
    cursor = parse_cursor(argv[2])
    fields = read_hash(ctx, argv[1])
    if not fields:
        return [b"0", []]
    pattern, count, _, without_values = parse_scan_options(Args(argv, 3), of_fields=True)
    whole = fields.fields if isinstance(fields, LiveFields) else fields

    def found(names: list[bytes]) -> list[Reply]:
        if pattern != b"*":
            names = list(filter(matcher(pattern), names))
        # Skip fields that have expired.
        pairs = [(name, fields[name]) for name in names if name in fields]
        return [name for name, _ in pairs] if without_values else list(chain.from_iterable(pairs))

    if whole.big:
        return scan_reply(ctx, argv, cursor, count, whole.names.walk, found)
    return [b"0", found(list(whole))]


# -- random ---------------------------------------------------------------------------------------------------------


@hash_command("hrandfield key [count [WITHVALUES]]", "readonly", since="6.2.0", complexity="O(count)")
def hrandfield(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns random fields of a hash; a negative count allows repetitions."""
    if len(argv) == 2:
        fields = read_hash(ctx, argv[1])
        if isinstance(fields, LiveFields):
            return next(iter(fields.drawn(1, ctx.changes.pick)), None)
        return fields.names.draw_one(ctx.changes.pick) if fields else None
    count, with_values = parse_draws(argv, b"WITHVALUES")
    fields = read_hash(ctx, argv[1])
    if fields and number_of_draws(count, len(fields)) > MANY:
        return _many_random(ctx, argv, fields, count, with_values=with_values)
    names = fields.drawn(count, ctx.changes.pick) if fields else []
    if not with_values:
        return names
    pairs: list[Reply] = [[name, fields[name]] for name in names]
    return pairs if ctx.resp3 else [word for pair in pairs for word in pair]


def _many_random(ctx: Context, argv: list[bytes], fields: Fields, count: int, *, with_values: bool) -> Reply:
    words: Iterator[Reply] = fields.draws(count, ctx.changes.pick)
    if with_values:
        pairs = ([name, fields[name]] for name in words)
        words = pairs if ctx.resp3 else chain.from_iterable(pairs)
    return in_pages(ctx, argv, list, words, PER_DRAW)
