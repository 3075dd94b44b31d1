"""Hashes. ``engine.core.keyspace.hash.Hash`` defines the order of fields in replies, and HSCAN's order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

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
#: Maximum number of draws with repetition. Redis has no limit, and builds replies regardless of memory and time.
_MOST_DRAWS = 1_000_000
#: Maximum length of a floating-point number in bytes, as in Redis.
_FLOAT_BYTES = 5_119


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


@hash_command("hincrbyfloat key field increment", "write denyoom fast", access="RW access update")
def hincrbyfloat(ctx: Context, argv: list[bytes]) -> Reply:
    """Increments the floating-point number in a field of a hash."""
    key, field = argv[1], argv[2]
    by = _parse_float(argv[3], b"ERR value is not a valid float")
    if not np.isfinite(by):
        raise CommandError(b"ERR value is NaN or Infinity")
    fields = hash_at(ctx, key) or Hash()
    with np.errstate(over="ignore"):
        total = _parse_float(fields.get(field, b"0"), b"ERR hash value is not a float") + by
    if not np.isfinite(total):
        raise CommandError(b"ERR increment would produce NaN or Infinity")
    text = np.format_float_positional(total, precision=17, unique=False, trim="-")
    result = b"0" if text == "-0" else text.encode()
    _put_fields(ctx, key, [field, result], b"hincrbyfloat")
    return result


def _parse_float(word: bytes, error: bytes) -> np.longdouble:
    """Return the number in ``word``, as C's strtold reads it; raise ``error`` if there is none."""
    try:
        with warnings.catch_warnings(action="ignore"):
            number = np.longdouble(word.decode("ascii"))
    except ValueError:
        raise CommandError(error) from None
    # A number beyond the range becomes an infinity or zero; only a word may be an infinity, and only zeros are zero.
    mantissa = word.upper().replace(b"P", b"E").split(b"E")[0]
    out_of_range = word[-1:].isdigit() if np.isinf(number) else not number and mantissa.strip(b"+-0.X")
    if out_of_range or len(word) > _FLOAT_BYTES or word != word.strip() or np.isnan(number):
        raise CommandError(error)
    return number


@hash_command("hrandfield key [count [WITHVALUES]]", "readonly")
def hrandfield(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns random fields of a hash; a negative count allows repetitions."""
    count, with_values = _parse_draws(argv) if len(argv) > 2 else (1, False)
    names, draw = list(read_hash(ctx, argv[1])), ctx.host.draw
    if len(argv) == 2:
        return names[draw(len(names))] if names else None
    if not names:
        return []
    size = min(count, len(names)) if count >= 0 else -count
    drawn = _drawn(names, count, draw)
    if not with_values:
        return _listed(ctx, argv, list, size, drawn)
    fields = read_hash(ctx, argv[1])
    pairs = ([name, fields[name]] for name in drawn)
    if ctx.session.proto == 3:
        return _listed(ctx, argv, list, size, pairs)
    return _listed(ctx, argv, list, 2 * size, chain.from_iterable(pairs))


def _drawn(names: list[bytes], count: int, draw: Callable[[int], int]) -> Iterator[bytes]:
    """Yield up to ``count`` of the names in random order; if it is negative, -``count`` names, possibly repeated."""
    for _ in range(-count):
        yield names[draw(len(names))]
    for at in range(min(count, len(names))):
        other = at + draw(len(names) - at)
        names[at], names[other] = names[other], names[at]
        yield names[at]


def _parse_draws(argv: list[bytes]) -> tuple[int, bool]:
    """Return the number of fields to draw, and whether WITHVALUES follows it."""
    count = parse_int(argv[2], messages.NOT_AN_INTEGER)
    if count == I64_MIN:
        raise CommandError(messages.out_of_range(-I64_MAX, I64_MAX))
    if len(argv) > 4 or (len(argv) == 4 and argv[3].upper() != b"WITHVALUES"):
        raise CommandError(messages.SYNTAX)
    if len(argv) == 4 and not -(I64_MAX // 2) <= count <= I64_MAX // 2:
        raise CommandError(b"ERR value is out of range")
    if count < -_MOST_DRAWS:
        raise CommandError(messages.out_of_range(-_MOST_DRAWS, I64_MAX))
    return count, len(argv) == 4


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
