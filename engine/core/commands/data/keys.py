"""Commands on keys of any type: deleting, querying, renaming, copying, moving, and SCAN.

Commands that process many words of a key, or many keys, run in steps. Each step processes some of the words like a
separate command: it looks the key up, counts its changes and records its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from engine.core.commands.families import database_command, key_command
from engine.core.keyspace.database import TYPE_NAMES, Database, Value, type_name
from engine.core.protocol import pace
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Reply, Simple, paged
from engine.core.table.registry import ALL_KEYS, NO_KEYS, Keys
from engine.text import messages
from engine.text.globs import matcher

if TYPE_CHECKING:
    from engine.core.environment.context import Context


def counted(
    ctx: Context,
    argv: list[bytes],
    first: int,
    handler: Callable[[Context, list[bytes]], Reply],
    *,
    at_once: int = 0,
    reply: Reply = None,
) -> Reply:
    """Run ``handler`` with ``at_once`` of the words from ``first`` on in each step; return the sum of its replies.

    If given, return ``reply`` instead of the sum.
    """
    size = at_once or pace.NAMES

    def work() -> Generator[None, None, Reply]:
        count = 0
        for at in range(first, len(argv), size):
            if at > first:
                yield
            count += handler(ctx, argv[:first] + argv[at : at + size])
        return count if reply is None else reply

    return ctx.in_steps(argv, work())


def parse_cursor(word: bytes) -> int:
    """Parse a cursor of SCAN or HSCAN: any unsigned 64-bit number."""
    if not word.isdigit() or len(word) > 20 or (cursor := int(word)) >= 1 << 64:
        raise CommandError(messages.INVALID_CURSOR)
    return cursor


def parse_scan_options(args: Args, *, of_fields: bool) -> tuple[bytes, int, bytes | None, bool]:
    """Parse the options of a scan: (pattern, count, lower-case type or None, whether NOVALUES was given).

    ``of_fields`` is False for SCAN, which has TYPE, and True for HSCAN, which has NOVALUES.
    """
    pattern, count, kind, names_only = b"*", 10, None, False
    while len(args):
        if args.option(b"COUNT"):
            count = args.take_int()
            if count < 1:
                raise CommandError(messages.SYNTAX)
        elif args.option(b"MATCH"):
            pattern = args.take()
        elif not of_fields and args.option(b"TYPE"):
            kind = args.take().lower()
        elif args.flag(b"NOVALUES"):
            if not of_fields:
                raise CommandError(b"ERR NOVALUES option can only be used in HSCAN")
            names_only = True
        else:
            raise CommandError(messages.SYNTAX)
    return pattern, count, kind, names_only


@key_command(
    "scan cursor [MATCH pattern] [COUNT count] [TYPE type]",
    "readonly",
    keys=NO_KEYS,
)
def scan(ctx: Context, argv: list[bytes]) -> Reply:
    """Iterates over the keys in steps; all keys that exist during the whole iteration are returned."""
    cursor = parse_cursor(argv[1])
    pattern, count, kind, _ = parse_scan_options(Args(argv, 2), of_fields=False)
    db = ctx.db

    def found(keys: list[bytes]) -> list[Reply]:
        if pattern != b"*":
            keys = list(filter(matcher(pattern), keys))
        # With TYPE, skip keys that other commands have removed between the steps.
        return [key for key in keys if TYPE_NAMES.get(type(db.get(key))) == kind] if kind is not None else keys

    following, keys = db.scan(cursor, min(count, pace.NAMES))
    return [b"%d" % following, found(keys)]


_I32_MIN, _I32_MAX = -(1 << 31), (1 << 31) - 1

# -- deleting -------------------------------------------------------------------------------------------------------


@key_command("unlink key [key ...]", "write fast", keys=ALL_KEYS, access="RM delete")
@key_command("del key [key ...]", "write", keys=ALL_KEYS, access="RM delete")
def delete(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes keys."""
    if len(argv) > pace.MANY_NAMES:
        return counted(ctx, argv, 1, delete, at_once=pace.IDS)
    db, changes, deleted = ctx.db, ctx.changes, []
    for key in argv[1:]:
        if db.delete(key):
            if changes.on_event is not None:
                changes.notify("g", b"del", key, db.index)
            deleted.append(key)
    if deleted and changes.recording:
        ctx.effect(b"DEL", *deleted)
    return len(deleted)


@database_command("flushdb [ASYNC|SYNC]", "write", acl="keyspace dangerous")
def flushdb(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes all keys of the selected database."""
    _flush_option(argv)
    ctx.divided.finish_all()
    ctx.db.clear()
    ctx.effect(b"FLUSHDB")
    return OK


@database_command("flushall [ASYNC|SYNC]", "write", acl="keyspace dangerous")
def flushall(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes all keys of all databases."""
    _flush_option(argv)
    ctx.divided.finish_all()
    for db in ctx.databases:
        db.clear()
    ctx.effect(b"FLUSHALL")
    ctx.durability.all_deleted()
    return OK


def _flush_option(argv: list[bytes]) -> None:
    args = Args(argv)
    if not args.flag(b"ASYNC"):
        args.flag(b"SYNC")
    args.finish()


# -- queries --------------------------------------------------------------------------------------------------------


@key_command("exists key [key ...]", "readonly fast", keys=ALL_KEYS, access="RO")
def exists(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns how many of the keys exist; a key given twice counts twice."""
    count = 0
    for key in argv[1:]:
        count += ctx.db.read(key) is not None
    return count


@key_command("touch key [key ...]", "readonly fast", keys=ALL_KEYS, access="RO")
def touch(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns how many of the keys exist."""
    count = 0
    for key in argv[1:]:
        count += ctx.db.read(key) is not None
    return count


@key_command("type key", "readonly fast", access="RO")
def type_of(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the type of a key's value."""
    value = ctx.db.read(argv[1])
    return Simple(b"none" if value is None else type_name(value))


@database_command("dbsize", "readonly fast")
def dbsize(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of keys in the selected database."""
    return len(ctx.db)


@key_command("keys pattern", "readonly", keys=NO_KEYS, acl="keyspace dangerous")
def keys_matching(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the keys that match a pattern."""
    keys = ctx.db.keys()
    if argv[1] == b"*":
        return paged(keys)
    matches = matcher(argv[1])

    def work() -> Generator[None, None, Reply]:
        found: list[Reply] = []
        while keys:
            found += filter(matches, keys[-pace.MANY_NAMES :])
            # Freeing all names at the end would block the server.
            del keys[-pace.MANY_NAMES :]
            if keys:
                yield
        return paged(found)

    return ctx.in_steps(argv, work())


# -- renaming, copying, moving --------------------------------------------------------------------------------------


def _put(db: Database, key: bytes, value: Value, deadline: int | None) -> Value | None:
    """Put a value at ``key``, replacing any existing one; return the replaced value."""
    former = db.get(key)
    db.delete(key, changes=0)
    db.add(key, value)
    db.set_deadline(key, deadline)
    return former


def _rename(ctx: Context, argv: list[bytes], *, replace: bool) -> bool:
    source, target = argv[1], argv[2]
    db = ctx.db
    if db.get(source) is None:
        raise CommandError(messages.NO_SUCH_KEY)
    if source == target:
        return replace
    if not replace and db.get(target) is not None:
        return False
    value, deadline = db.pop(source)
    former = _put(db, target, value, deadline)
    ctx.changes.notify("g", b"rename_from", source, db.index)
    ctx.changes.notify("g", b"rename_to", target, db.index)
    db.report_overwritten(target, former, value)
    ctx.effect(b"RENAME", source, target)
    return True


@key_command("rename key newkey", "write", keys=Keys(1, 2, 1), access="RW access delete, OW update")
def rename(ctx: Context, argv: list[bytes]) -> Reply:
    """Renames a key. An existing key of the new name is replaced."""
    _rename(ctx, argv, replace=True)
    return OK


@key_command("renamenx key newkey", "write fast", keys=Keys(1, 2, 1), access="RW access delete, OW insert")
def renamenx(ctx: Context, argv: list[bytes]) -> Reply:
    """Renames a key unless a key of the new name exists."""
    return int(_rename(ctx, argv, replace=False))


def _database(ctx: Context, word: bytes) -> Database:
    """Return the database with this number."""
    index = parse_int(word)
    if not _I32_MIN <= index <= _I32_MAX:
        raise CommandError(messages.out_of_range(_I32_MIN, _I32_MAX))
    if not 0 <= index < len(ctx.databases):
        raise CommandError(messages.DB_INDEX_RANGE)
    return ctx.databases[index]


@key_command(
    "copy source destination [DB destination-db] [REPLACE]",
    "write denyoom",
    keys=Keys(1, 2, 1),
    access="RO access, OW update",
)
def copy(ctx: Context, argv: list[bytes]) -> Reply:
    """Copies a key with its expiry. An existing destination is replaced only with REPLACE."""
    args = Args(argv, 3)
    target_db, replace = ctx.db, False
    while len(args):
        if args.flag(b"REPLACE"):
            replace = True
        elif args.option(b"DB"):
            target_db = _database(ctx, args.take())
        else:
            raise CommandError(messages.SYNTAX)
    source, target = argv[1], argv[2]
    if target_db is ctx.db and source == target:
        raise CommandError(messages.SAME_OBJECT)
    value = ctx.db.read(source)
    if value is None or (not replace and target_db.get(target) is not None):
        return 0
    copied = value if isinstance(value, bytes) else value.copy()
    former = _put(target_db, target, copied, ctx.db.deadline(source))
    ctx.changes.notify("g", b"copy_to", target, target_db.index)
    target_db.report_overwritten(target, former, copied)
    ctx.effect(b"COPY", source, target, b"DB", b"%d" % target_db.index, b"REPLACE")
    return 1


@key_command("move key db", "write fast", access="RW access update")
def move(ctx: Context, argv: list[bytes]) -> Reply:
    """Moves a key to another database unless it exists there."""
    key, source, target = argv[1], ctx.db, _database(ctx, argv[2])
    if source is target:
        raise CommandError(messages.SAME_OBJECT)
    if source.get(key) is None or target.get(key) is not None:
        return 0
    value, deadline = source.pop(key)
    _put(target, key, value, deadline)
    ctx.changes.notify("g", b"move_from", key, source.index)
    ctx.changes.notify("g", b"move_to", key, target.index)
    ctx.effect(b"MOVE", key, b"%d" % target.index)
    return 1


@database_command(
    "swapdb index1 index2",
    "write fast",
    acl="keyspace dangerous",
)
def swapdb(ctx: Context, argv: list[bytes]) -> Reply:
    """Exchanges the keys of two databases."""
    first = parse_int(argv[1], messages.SWAP_FIRST_INDEX)
    if not _I32_MIN <= first <= _I32_MAX:
        raise CommandError(messages.SWAP_FIRST_INDEX)
    second = parse_int(argv[2], messages.SWAP_SECOND_INDEX)
    if not _I32_MIN <= second <= _I32_MAX:
        raise CommandError(messages.SWAP_SECOND_INDEX)
    databases = ctx.databases
    if not (0 <= first < len(databases) and 0 <= second < len(databases)):
        raise CommandError(messages.DB_INDEX_RANGE)
    ctx.divided.finish_all()
    if first != second:
        databases[first].swap(databases[second])
    ctx.changes.dirty += 1
    ctx.effect(b"SWAPDB", argv[1], argv[2])
    return OK
