"""Hashes. ``engine.core.keyspace.hash.Hash`` defines the order of fields in replies, and HSCAN's order."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING

from engine.core.commands.data.keys import counted, parse_cursor, parse_scan_options
from engine.core.commands.families import hash_command
from engine.core.keyspace.hash import Hash
from engine.core.protocol import pace
from engine.core.protocol.args import I64_MAX, I64_MIN, Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Pages, Reply
from engine.text import messages
from engine.text.globs import matcher

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: HSCAN returns a hash with up to this many fields at once.
SCANNED_AT_ONCE = 128


def hash_at(ctx: Context, key: bytes) -> Hash | None:
    """Return the hash at ``key`` for a change; None if the key does not exist."""
    value: Hash | None = ctx.db.typed(key, Hash)
    return value


def read_hash(ctx: Context, key: bytes) -> Hash:
    """Return the hash at ``key``; an empty hash if the key does not exist."""
    value: Hash | None = ctx.db.read_typed(key, Hash)
    return Hash() if value is None else value


def _put_fields(ctx: Context, key: bytes, pairs: list[bytes], event: bytes) -> int:
    """Set fields and log an HSET; return the number of new fields."""
    fields = hash_at(ctx, key)
    if fields is None:
        fields = Hash()
        ctx.db.add(key, fields, changes=0)
    new = 0
    for at in range(0, len(pairs), 2):
        new += fields.put(pairs[at], pairs[at + 1])
    ctx.db.changed(key, "h", event, len(pairs) // 2)
    if ctx.changes.recording:
        ctx.effect(b"HSET", key, *pairs)
    return new


@hash_command("hset key field value [field value ...]", "write denyoom fast")
def hset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets fields of a hash, and returns how many of them are new."""
    if len(argv) % 2:
        raise CommandError(messages.wrong_arity(argv[0].lower()))
    if len(argv) > pace.MANY_ARGUMENTS:
        return counted(ctx, argv, 2, hset)
    return _put_fields(ctx, argv[1], argv[2:], b"hset")


@hash_command("hmset key field value [field value ...]", "write denyoom fast")
def hmset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets fields of a hash."""
    if len(argv) % 2:
        raise CommandError(messages.wrong_arity(argv[0].lower()))
    if len(argv) > pace.MANY_ARGUMENTS:
        return counted(ctx, argv, 2, hset, reply=OK)
    _put_fields(ctx, argv[1], argv[2:], b"hset")
    return OK


@hash_command("hsetnx key field value", "write denyoom fast", access="RW insert")
def hsetnx(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a field of a hash unless it exists."""
    if argv[2] in (hash_at(ctx, argv[1]) or ()):
        return 0
    return _put_fields(ctx, argv[1], argv[2:], b"hset")


@hash_command("hget key field", "readonly fast")
def hget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the value of a field of a hash."""
    return read_hash(ctx, argv[1]).get(argv[2])


@hash_command("hmget key field [field ...]", "readonly fast")
def hmget(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the values of several fields of a hash."""
    names = argv[2:]
    return _listed(ctx, argv, list, len(names), map(read_hash(ctx, argv[1]).get, names))


@hash_command("hgetall key", "readonly")
def hgetall(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all fields of a hash with their values."""
    fields = read_hash(ctx, argv[1])
    return _listed(ctx, argv, Map, 2 * len(fields), chain.from_iterable(fields.items()))


@hash_command("hkeys key", "readonly")
def hkeys(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all fields of a hash."""
    fields = read_hash(ctx, argv[1])
    return _listed(ctx, argv, list, len(fields), fields)


@hash_command("hvals key", "readonly")
def hvals(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all values of a hash."""
    fields = read_hash(ctx, argv[1])
    return _listed(ctx, argv, list, len(fields), fields.values())


def _listed(ctx: Context, argv: list[bytes], kind: type[list[Reply]], size: int, words: Iterable[Reply]) -> Reply:
    """Return ``size`` words, made from a hash, as a reply of this kind; in steps and pages if there are many."""
    if size <= pace.PAGE_FIELDS:
        return kind(words)

    def work() -> Generator[None, None, Reply]:
        pages: list[list[Reply]] = []
        left = iter(words)
        while page := list(islice(left, pace.PAGE_FIELDS)):
            if pages:
                yield
            pages.append(page)
        pages.reverse()
        # Each page is freed when it is sent, because freeing all of them at once would block the server.
        return Pages(kind, size, (pages.pop() for _ in range(len(pages))))

    return ctx.in_steps(argv, work())


@hash_command("hlen key", "readonly fast", access="RO")
def hlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of fields of a hash."""
    return len(read_hash(ctx, argv[1]))


@hash_command("hexists key field", "readonly fast", access="RO")
def hexists(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns whether a field of a hash exists."""
    return int(argv[2] in read_hash(ctx, argv[1]))


@hash_command("hstrlen key field", "readonly fast", access="RO")
def hstrlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of a field's value."""
    return len(read_hash(ctx, argv[1]).get(argv[2]) or b"")


@hash_command("hdel key field [field ...]", "write fast", access="RW delete")
def hdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes fields of a hash, and returns how many existed."""
    if len(argv) > pace.MANY_ARGUMENTS:
        return counted(ctx, argv, 2, hdel)
    key, db = argv[1], ctx.db
    fields = hash_at(ctx, key)
    if fields is None:
        return 0
    removed = [field for field in argv[2:] if fields.pop(field, None) is not None]
    if removed:
        db.changed(key, "h", b"hdel", len(removed))
        ctx.effect(b"HDEL", key, *removed)
        if not fields:
            db.delete(key, changes=0)
            ctx.changes.notify("g", b"del", key, db.index)
    return len(removed)


@hash_command("hincrby key field increment", "write denyoom fast", access="RW access update")
def hincrby(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the integer in a field of a hash."""
    key, field = argv[1], argv[2]
    by = parse_int(argv[3])
    fields = hash_at(ctx, key) or Hash()
    result = parse_int(fields.get(field, b"0"), b"ERR hash value is not an integer") + by
    if not I64_MIN <= result <= I64_MAX:
        raise CommandError(messages.OVERFLOW)
    _put_fields(ctx, key, [field, b"%d" % result], b"hincrby")
    return result


@hash_command(
    "hscan key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
    "readonly",
)
def hscan(ctx: Context, argv: list[bytes]) -> Reply:
    """Iterates over a hash in steps; all fields that exist during the whole iteration are returned."""
    cursor = parse_cursor(argv[2])
    fields = read_hash(ctx, argv[1])
    if not fields:
        return [b"0", []]
    pattern, count, _, without_values = parse_scan_options(Args(argv, 3), of_fields=True)

    def found(names: list[bytes]) -> list[Reply]:
        if pattern != b"*":
            names = list(filter(matcher(pattern), names))
        return list(names) if without_values else [word for name in names for word in (name, fields[name])]

    if len(fields) > SCANNED_AT_ONCE:
        following, names = fields.walk(cursor, min(count, pace.NAMES))
        return [b"%d" % following, found(names)]
    return [b"0", found(list(fields))]
