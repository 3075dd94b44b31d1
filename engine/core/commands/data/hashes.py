"""Hashes. What a client sees of their order and of HSCAN follows from :class:`engine.core.keyspace.hash.Hash`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from engine.core.commands.data.counters import sum_of_floats
from engine.core.commands.data.draws import parse_draws
from engine.core.commands.data.scan import looked_through, parse_cursor, parse_scan_options
from engine.core.commands.families import hash_command
from engine.core.keyspace.elements import gathered
from engine.core.keyspace.hash import Hash
from engine.core.protocol.args import I64_MAX, I64_MIN, Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Pages, Reply, paged
from engine.text import longdouble
from engine.text.globs import matcher
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context


#: A hash of more fields is gathered in steps and replied with in pages.
_MANY = 5000


def _hash(ctx: Context, key: bytes) -> Hash | None:
    value: Hash | None = ctx.db.typed(key, Hash)
    return value


def _read(ctx: Context, key: bytes) -> Hash:
    """The hash at ``key``, an empty one where there is none."""
    value: Hash | None = ctx.db.read_typed(key, Hash)
    return value if value is not None else Hash()


def small_hash_limits(ctx: Context) -> tuple[int, int]:
    """Up to how many fields, and up to which length, a hash is small."""
    config = ctx.config
    return config.integer("hash-max-listpack-entries"), config.integer("hash-max-listpack-value")


def _put(ctx: Context, key: bytes, pairs: list[bytes], event: bytes) -> int:
    """Set fields; how many are new. The log gets an HSET."""
    fields = _hash(ctx, key)
    if fields is None:
        fields = Hash()
        ctx.db.add(key, fields, changes=0)
    limits = small_hash_limits(ctx)
    new = sum([fields.put(pairs[at], pairs[at + 1], limits) for at in range(0, len(pairs), 2)])
    ctx.db.touch(key, changes=len(pairs) // 2)
    ctx.changes.notify("h", event, key, ctx.db.index)
    ctx.effect(b"HSET", key, *pairs)
    return new


def _set_fields(ctx: Context, argv: list[bytes]) -> int:
    if len(argv) % 2:
        raise CommandError(general.wrong_arity(argv[0].lower()))
    return _put(ctx, argv[1], argv[2:], b"hset")


@hash_command("hset key field value [field value ...]", "write denyoom fast", complexity="O(fields)")
def hset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets fields of a hash, and returns how many of them are new."""
    return _set_fields(ctx, argv)


@hash_command("hmset key field value [field value ...]", "write denyoom fast", complexity="O(fields)")
def hmset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets fields of a hash."""
    _set_fields(ctx, argv)
    return OK


@hash_command("hsetnx key field value", "write denyoom fast", access="RW insert")
def hsetnx(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a field of a hash unless it exists."""
    if argv[2] in (_hash(ctx, argv[1]) or ()):
        return 0
    return _put(ctx, argv[1], argv[2:], b"hset")


@hash_command("hget key field", "readonly fast")
def hget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the value of a field of a hash."""
    return _read(ctx, argv[1]).get(argv[2])


@hash_command("hmget key field [field ...]", "readonly fast", complexity="O(fields)")
def hmget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the values of several fields of a hash."""
    return paged(list(map(_read(ctx, argv[1]).get, argv[2:])))


@hash_command("hgetall key", "readonly", complexity="O(size)")
def hgetall(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all fields of a hash with their values."""
    fields = _read(ctx, argv[1])
    if len(fields) <= _MANY:
        return Map(_pairs(fields))
    return _in_pages(ctx, argv, Map, fields, _pairs)


def _pairs(fields: Hash) -> Iterator[bytes]:
    return chain.from_iterable(fields.items())


def _in_pages(
    ctx: Context, argv: list[bytes], kind: type[list[Reply]], fields: Hash, words: Callable[[Hash], Iterator[bytes]]
) -> Reply:
    """A long reply of the ``words`` of a hash."""
    gathering = gathered(fields, words)

    def work() -> Generator[None, None, Reply]:
        parts = yield from gathering
        # (Each part is let go when it is sent: letting all of them go together would take long.)
        return Pages(kind, sum(map(len, parts)), (parts.pop() for _ in range(len(parts))))

    return ctx.in_steps(argv, work())


@hash_command("hkeys key", "readonly", complexity="O(size)")
def hkeys(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all fields of a hash."""
    fields = _read(ctx, argv[1])
    return list(fields) if len(fields) <= _MANY else _in_pages(ctx, argv, list, fields, iter)


@hash_command("hvals key", "readonly", complexity="O(size)")
def hvals(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all values of a hash."""
    fields = _read(ctx, argv[1])
    return list(fields.values()) if len(fields) <= _MANY else _in_pages(ctx, argv, list, fields, _values)


def _values(fields: Hash) -> Iterator[bytes]:
    return iter(fields.values())


@hash_command("hlen key", "readonly fast", access="RO")
def hlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of fields of a hash."""
    return len(_read(ctx, argv[1]))


@hash_command("hexists key field", "readonly fast", access="RO")
def hexists(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns whether a field of a hash exists."""
    return int(argv[2] in _read(ctx, argv[1]))


@hash_command("hstrlen key field", "readonly fast", access="RO", since="3.2.0")
def hstrlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of a field's value."""
    return len(_read(ctx, argv[1]).get(argv[2], b""))


@hash_command("hdel key field [field ...]", "write fast", access="RW delete", complexity="O(fields)")
def hdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes fields of a hash, and returns how many existed."""
    key, db = argv[1], ctx.db
    fields = _hash(ctx, key)
    if fields is None:
        return 0
    gone = [field for field in argv[2:] if fields.remove(field)]
    if gone:
        db.touch(key, changes=len(gone))
        ctx.changes.notify("h", b"hdel", key, db.index)
        ctx.effect(b"HDEL", key, *gone)
        if not fields:
            db.delete(key, changes=0)
            ctx.changes.notify("g", b"del", key, db.index)
    return len(gone)


@hash_command("hincrby key field increment", "write denyoom fast", access="RW access update")
def hincrby(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the integer in a field of a hash."""
    key, field = argv[1], argv[2]
    by = parse_int(argv[3])
    fields = _hash(ctx, key) or Hash()
    result = parse_int(fields.get(field, b"0"), data.HASH_NOT_AN_INTEGER) + by
    if not I64_MIN <= result <= I64_MAX:
        raise CommandError(data.OVERFLOW)
    _put(ctx, key, [field, b"%d" % result], b"hincrby")
    return result


@hash_command("hincrbyfloat key field increment", "write denyoom fast", access="RW access update", since="2.6.0")
def hincrbyfloat(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the number in a field of a hash, which may have a fraction."""
    key, field = argv[1], argv[2]
    try:
        by = longdouble.parse(argv[3])
    except longdouble.InfiniteError:
        raise CommandError(data.INCREMENT_NOT_FINITE) from None
    if by is None:
        raise CommandError(general.NOT_A_FLOAT)
    fields = _hash(ctx, key) or Hash()
    word = fields.get(field, b"0")
    try:
        number = longdouble.parse(word)
    except longdouble.InfiniteError:
        raise CommandError(data.NOT_FINITE) from None
    result = longdouble.text(sum_of_floats(number, by, data.HASH_NOT_A_FLOAT))
    _put(ctx, key, [field, result], b"hincrbyfloat")
    return result


@hash_command(
    "hscan key cursor [MATCH pattern] [COUNT count] [NOVALUES]", "readonly", since="2.8.0", complexity="O(COUNT) a step"
)
def hscan(ctx: Context, argv: list[bytes]) -> Reply:
    """Iterates over a hash in steps; a field that exists all the time is returned."""
    cursor = parse_cursor(argv[2])
    fields = _read(ctx, argv[1])
    if not fields:
        return [b"0", []]
    pattern, count, _, without_values = parse_scan_options(Args(argv, 3), of_fields=True)
    following, names = fields.slots.walk(cursor, count) if fields.big else (0, list(fields))

    def found(names: list[bytes]) -> list[Reply]:
        if pattern != b"*":
            names = list(filter(matcher(pattern), names))
        # (In a later step some of them may be gone.)
        pairs = [(name, fields[name]) for name in names if name in fields]
        return [name for name, _ in pairs] if without_values else list(chain.from_iterable(pairs))

    return looked_through(ctx, argv, following, names, found)


# -- chance ---------------------------------------------------------------------------------------------------------


@hash_command("hrandfield key [count [WITHVALUES]]", "readonly", since="6.2.0", complexity="O(count)")
def hrandfield(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns random fields of a hash: different ones, or with a negative count perhaps equal ones."""
    if len(argv) == 2:
        fields = _read(ctx, argv[1])
        return fields.slots[ctx.changes.pick(len(fields))] if fields else None
    count, with_values = parse_draws(argv, b"WITHVALUES")
    fields = _read(ctx, argv[1])
    names = fields.drawn(count, ctx.changes.pick) if fields else []
    if not with_values:
        return paged(names)
    pairs: list[Reply] = [[name, fields[name]] for name in names]
    return paged(pairs if ctx.resp3 else [word for pair in pairs for word in pair])
