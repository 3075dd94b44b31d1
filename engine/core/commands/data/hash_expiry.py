"""Expiring hash fields: HEXPIRE, HTTL and their variants, HPERSIST, HGETEX, HSETEX; and HGETDEL, whose syntax is
similar.

The log receives absolute times in milliseconds, as for keys. A time in the past removes fields immediately, and the
log then receives an HDEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from engine.core.commands.data.expiry import TIME_SYNTAX, TIMES, is_past
from engine.core.commands.data.hashes import hash_at, put_fields, read_hash
from engine.core.commands.data.long_reads import MANY, in_pages
from engine.core.commands.data.many_words import listed
from engine.core.commands.data.mutations import drop_key
from engine.core.commands.families import hash_command
from engine.core.keyspace.hash import Hash
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import CommandError, Reply, paged
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: The latest possible deadline of a field, in milliseconds since the epoch.
_LAST = (1 << 46) - 1
_I32_MAX = (1 << 31) - 1
_CONDITIONS = (b"NX", b"XX", b"GT", b"LT")
#: Option with a time -> whether the time is in seconds, and whether it is since the epoch.
_UNITS = {b"EX": (True, False), b"PX": (False, False), b"EXAT": (True, True), b"PXAT": (False, True)}
_FIELDS = "FIELDS numfields field [field ...]"


def _deadline(ctx: Context, command_name: bytes, word: bytes, *, seconds: bool, absolute: bool) -> int:
    amount = parse_int(word)
    if amount < 0:
        raise CommandError(data.FIELD_EXPIRY_NEGATIVE)
    deadline = amount * 1000 if seconds else amount
    if not absolute:
        deadline += ctx.now
    if deadline > _LAST:
        raise CommandError(data.invalid_expire(command_name))
    return deadline


def _only_fields(argv: list[bytes]) -> list[bytes]:
    """Return the fields in the words of a command ``NAME key FIELDS numfields field [field ...]``."""
    if argv[2].upper() != b"FIELDS":
        raise CommandError(data.FIELDS_MISSING)
    count = parse_int(argv[3], data.FIELD_COUNT)
    if count < 1:
        raise CommandError(data.FIELD_COUNT)
    if count != len(argv) - 4:
        raise CommandError(data.FIELD_COUNT_DIFFERS)
    return argv[4:]


def _parse_fields(args: Args, error: bytes, apart: int = 1) -> list[bytes]:
    """Parse ``FIELDS numfields field [field ...]``; with ``apart`` 2, each field is followed by its value."""
    args.take()
    count = args.take_int(error)
    if not 0 < count <= _I32_MAX:
        raise CommandError(error)
    if count * apart > len(args):
        raise CommandError(data.FIELD_ARGUMENTS)
    args.pos += count * apart
    return args.argv[args.pos - count * apart : args.pos]


# -- changes of fields ------------------------------------------------------------------------------------------------


def _set_deadlines(ctx: Context, key: bytes, fields: Hash, names: list[bytes], deadline: int) -> None:
    """Set the deadline of existing fields; a time in the past removes them. Record effects and events."""
    if not names:
        return
    if is_past(ctx, deadline):
        ctx.changes.expired_fields += len(names)
        _remove(ctx, key, fields, names)
        return
    fields.set_one_deadline(names, deadline)
    ctx.db.note_fields(key, fields)
    ctx.db.touch(key, changes=len(names))
    ctx.changes.notify("h", b"hexpire", key, ctx.db.index)
    ctx.effect(b"HPEXPIREAT", key, b"%d" % deadline, b"FIELDS", b"%d" % len(names), *names)


def _persist(ctx: Context, key: bytes, fields: Hash, names: list[bytes]) -> None:
    """Remove the deadlines of fields. Record the effect and the event."""
    if names:
        for name in names:
            fields.set_deadline(name, None)
        ctx.db.touch(key, changes=len(names))
        ctx.changes.notify("h", b"hpersist", key, ctx.db.index)
        ctx.effect(b"HPERSIST", key, b"FIELDS", b"%d" % len(names), *names)


def _remove(ctx: Context, key: bytes, fields: Hash, names: list[bytes]) -> None:
    """Remove existing fields, and delete the hash if it is then empty. Record the effect and the events."""
    db = ctx.db
    for name in names:
        fields.remove(name)
    db.touch(key, changes=len(names))
    ctx.changes.notify("h", b"hdel", key, db.index)
    ctx.effect(b"HDEL", key, *names)
    if not fields:
        drop_key(ctx, key)


# -- HEXPIRE and its variants -----------------------------------------------------------------------------------------


def _expire(ctx: Context, argv: list[bytes], *, seconds: bool, absolute: bool) -> Reply:
    key = argv[1]
    ctx.db.typed(key, Hash)
    deadline = _deadline(ctx, argv[0].lower(), argv[2], seconds=seconds, absolute=absolute)
    args, conditions, names = Args(argv, 3), set[bytes](), list[bytes]()
    while len(args):
        word = args.peek()
        if word in _CONDITIONS:
            conditions.add(word)
            args.take()
        elif word == b"FIELDS":
            if names:
                raise CommandError(data.FIELDS_TWICE)
            if len(args) < 3:
                raise CommandError(data.FIELDS_TOO_FEW)
            names = _parse_fields(args, data.NUM_FIELDS)
        else:
            raise CommandError(data.unknown_argument(args.take()))
    if not names:
        raise CommandError(data.FIELDS_MISSING)
    if len(conditions) > 1:
        raise CommandError(data.FIELD_CONDITIONS)
    condition = next(iter(conditions), b"")
    return listed(ctx, argv, names, lambda names: _expire_fields(ctx, key, names, deadline, condition))


def _expire_fields(ctx: Context, key: bytes, names: list[bytes], deadline: int, condition: bytes) -> list[Reply]:
    """Set the deadline of fields that exist and satisfy the condition; return a result for each name."""
    fields = hash_at(ctx, key, names)
    if fields is None:
        return [-2] * len(names)
    goes = is_past(ctx, deadline)
    replies: list[Reply]
    if not (goes or condition):
        found = [name for name in names if name in fields]
        replies = [1] * len(names) if len(found) == len(names) else [1 if name in fields else -2 for name in names]
        _set_deadlines(ctx, key, fields, list(dict.fromkeys(found)), deadline)
        return replies
    chosen: dict[bytes, None] = {}
    replies = []
    for name in names:
        if name not in fields or (goes and name in chosen):
            replies.append(-2)
        elif name in chosen:
            replies.append(int(_holds(condition, deadline, deadline)))
        elif _holds(condition, (fields.deadlines or {}).get(name), deadline):
            chosen[name] = None
            replies.append(2 if goes else 1)
        else:
            replies.append(0)
    _set_deadlines(ctx, key, fields, list(chosen), deadline)
    return replies


def _holds(condition: bytes, current: int | None, deadline: int) -> bool:
    """Return whether NX, XX, GT or LT allows replacing a field's ``current`` deadline with ``deadline``."""
    if condition in (b"NX", b"XX"):
        return (current is None) is (condition == b"NX")
    if condition == b"GT":
        return current is not None and deadline > current
    return condition != b"LT" or current is None or deadline < current


for _name, _kind in (
    ("hexpire", "seconds"),
    ("hpexpire", "milliseconds"),
    ("hexpireat", "unix-time-seconds"),
    ("hpexpireat", "unix-time-milliseconds"),
):
    _seconds, _absolute, _time_of = TIMES[_kind]
    hash_command(
        f"{_name} key {_kind} [NX|XX|GT|LT] {_FIELDS}",
        "write fast",
        since="7.4.0",
        complexity="O(fields)",
        summary=f"Sets {_time_of.format('fields of a hash')}.",
    )(partial(_expire, seconds=_seconds, absolute=_absolute))


def _time(ctx: Context, argv: list[bytes], *, seconds: bool, absolute: bool) -> Reply:
    fields, now = read_hash(ctx, argv[1]), ctx.now
    names = _only_fields(argv)

    def times() -> Iterator[int]:
        deadlines = (fields if isinstance(fields, Hash) else fields.fields).deadlines or {}
        for name in names:
            if name not in fields:
                yield -2
                continue
            deadline = deadlines.get(name)
            if deadline is None:
                yield -1
                continue
            time = deadline if absolute else max(deadline - now, 0)
            yield -(-time // 1000) if seconds else time

    return list(times()) if len(names) <= MANY else in_pages(ctx, argv, list, times())


for _name, _kind in (
    ("httl", "seconds"),
    ("hpttl", "milliseconds"),
    ("hexpiretime", "unix-time-seconds"),
    ("hpexpiretime", "unix-time-milliseconds"),
):
    _seconds, _absolute, _time_of = TIMES[_kind]
    _times = _time_of.format("fields of a hash")
    hash_command(
        f"{_name} key {_FIELDS}",
        "readonly fast",
        since="7.4.0",
        complexity="O(fields)",
        summary=f"Returns {_times}; -1 for a field that does not expire, -2 for a missing field.",
    )(partial(_time, seconds=_seconds, absolute=_absolute))


@hash_command(f"hpersist key {_FIELDS}", "write fast", since="7.4.0", complexity="O(fields)")
def hpersist(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes the expiry of fields of a hash."""
    key = argv[1]
    ctx.db.typed(key, Hash)
    return listed(ctx, argv, _only_fields(argv), lambda names: _persist_fields(ctx, key, names))


def _persist_fields(ctx: Context, key: bytes, names: list[bytes]) -> list[Reply]:
    fields = hash_at(ctx, key, names)
    if fields is None:
        return [-2] * len(names)
    deadlines = fields.deadlines or {}
    persisted: dict[bytes, None] = {}
    replies: list[Reply] = []
    for name in names:
        expires = name in deadlines and name not in persisted
        if expires:
            persisted[name] = None
        replies.append(1 if expires else -1 if name in fields else -2)
    _persist(ctx, key, fields, list(persisted))
    return replies


# -- HGETEX, HSETEX, HGETDEL ------------------------------------------------------------------------------------------


class _Words:
    """The words after the key of HGETEX and HSETEX, in any order. ``without_time`` is the expiry option without a
    time: PERSIST or KEEPTTL. With ``apart`` 2, each field is followed by its value.
    """

    __slots__ = ("_ctx", "_name", "_without_time", "condition", "deadline", "fields", "is_without_time")

    def __init__(self, ctx: Context, argv: list[bytes], without_time: bytes, apart: int) -> None:
        self._ctx = ctx
        self._name = argv[0].lower()
        self._without_time = without_time
        self.condition = b""
        self.deadline: int | None = None
        self.is_without_time = False
        self.fields: list[bytes] = []
        args, wrong = Args(argv, 2), False
        while len(args):
            word = args.peek()
            if word == b"FIELDS":
                if self.fields:
                    raise CommandError(data.FIELDS_TWICE)
                if len(args) == 1:
                    raise CommandError(general.wrong_arity(self._name))
                self.fields = _parse_fields(args, data.NUM_FIELDS_INVALID, apart)
            elif word in (b"FNX", b"FXX"):
                if self.condition:
                    raise CommandError(data.FNX_FXX)
                self.condition = args.take().upper()
            elif word in _UNITS or word in (b"PERSIST", b"KEEPTTL"):
                self._parse_expiry(args, word)
                wrong = wrong or (word not in _UNITS and word != without_time)
            else:
                raise CommandError(data.unknown_argument(args.take()))
        if wrong or (self.condition and apart == 1):
            # As in Redis, each command parses the other's options before it refuses them.
            raise CommandError(data.UNKNOWN_ARGUMENT)
        if not self.fields:
            raise CommandError(data.FIELDS_MISSING)

    def _parse_expiry(self, args: Args, word: bytes) -> None:
        if self.is_without_time or self.deadline is not None:
            raise CommandError(data.several_times(self._without_time))
        args.take()
        if word not in _UNITS:
            self.is_without_time = True
            return
        if not len(args):
            raise CommandError(data.EXPIRE_TIME_MISSING)
        seconds, absolute = _UNITS[word]
        self.deadline = _deadline(self._ctx, self._name, args.take(), seconds=seconds, absolute=absolute)


@hash_command(
    f"hgetex key [{TIME_SYNTAX}|PERSIST] {_FIELDS}",
    "write fast",
    access="RW access update",
    since="8.0.0",
    complexity="O(fields)",
)
def hgetex(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the values of fields of a hash; with an option, changes the expiry of the fields."""
    key = argv[1]
    ctx.db.typed(key, Hash)
    words = _Words(ctx, argv, b"PERSIST", 1)
    names = words.fields
    fields = hash_at(ctx, key, names)
    if fields is None:
        return [None] * len(names)
    removes = words.deadline is not None and is_past(ctx, words.deadline)
    values = _taken(fields, names) if removes else list(map(fields.get, names))
    found = [name for name in dict.fromkeys(names) if name in fields]
    if words.deadline is not None:
        _set_deadlines(ctx, key, fields, found, words.deadline)
    elif words.is_without_time:
        _persist(ctx, key, fields, [name for name in found if name in (fields.deadlines or ())])
    return paged(values)


@hash_command(
    f"hsetex key [FNX|FXX] [{TIME_SYNTAX}|KEEPTTL] FIELDS numfields field value [field value ...]",
    "write denyoom fast",
    since="8.0.0",
    complexity="O(fields)",
)
def hsetex(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets fields of a hash and their common expiry. FNX: only if no field exists. FXX: only if all fields exist."""
    key = argv[1]
    words = _Words(ctx, argv, b"KEEPTTL", 2)
    pairs, condition = words.fields, words.condition
    names = list(dict.fromkeys(pairs[::2]))
    fields = hash_at(ctx, key, names)
    if condition and any((name in (fields or ())) is (condition == b"FNX") for name in names):
        return 0
    put_fields(ctx, key, pairs, b"hset", keep_ttl=words.is_without_time)
    if words.deadline is not None:
        fields = hash_at(ctx, key, ())
        assert fields is not None
        _set_deadlines(ctx, key, fields, names, words.deadline)
    return 1


@hash_command(f"hgetdel key {_FIELDS}", "write fast", access="RW access delete", since="8.0.0", complexity="O(fields)")
def hgetdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the values of fields of a hash, and deletes the fields."""
    key = argv[1]
    ctx.db.typed(key, Hash)
    names = _only_fields(argv)
    fields = hash_at(ctx, key, names)
    if fields is None:
        return [None] * len(names)
    values = _taken(fields, names)
    found = [name for name in dict.fromkeys(names) if name in fields]
    if found:
        _remove(ctx, key, fields, found)
    return paged(values)


def _taken(fields: Hash, names: list[bytes]) -> list[bytes | None]:
    """Return the values of fields that the caller deletes; None for missing fields and each repetition of a name."""
    seen: set[bytes] = set()
    values: list[bytes | None] = []
    for name in names:
        values.append(None if name in seen else fields.get(name))
        seen.add(name)
    return values
