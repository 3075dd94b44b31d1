"""Conditional string commands: DIGEST, DELEX and MSETEX. The conditions of SET are in ``values``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.data.expiry import TIME_SYNTAX, TimeOption
from engine.core.commands.data.strings import digests
from engine.core.commands.data.strings.values import checked
from engine.core.commands.families import string_command
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import CommandError, Reply
from engine.core.table.registry import Keys
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: MSETEX returns an error if there are at least this many pairs.
_TOO_MANY = 1 << 31


@string_command("digest key", "readonly fast", since="8.4.0", complexity="O(length)")
def digest(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the XXH3 digest of the string at a key, as hexadecimal digits."""
    value = checked(ctx.db.read(argv[1]))
    return None if value is None else digests.digest(value)


@string_command(
    "delex key [IFEQ value|IFNE value|IFDEQ digest|IFDNE digest]",
    "write fast",
    access="RW delete variable_flags",
    since="8.4.0",
    complexity="O(1), with a digest O(length)",
)
def delex(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes a key; with a condition, only if the key's string meets the condition."""
    key, db = argv[1], ctx.db
    if len(argv) not in (2, 4):
        raise CommandError(general.wrong_arity(b"delex"))
    value = db.get(key) if len(argv) == 2 else db.read(key)
    if value is None:
        return 0
    if len(argv) == 4:
        if not isinstance(value, bytes | bytearray):
            raise CommandError(data.CONDITION_ON_STRING)
        condition = argv[2].upper()
        if condition not in digests.CONDITIONS:
            raise CommandError(data.INVALID_CONDITION)
        if not digests.is_met(condition, argv[3], value):
            return 0
    db.delete(key)
    ctx.effect(b"DEL", key)
    ctx.changes.notify("g", b"del", key, db.index)
    return 1


@string_command(
    f"msetex numkeys key value [key value ...] [NX|XX] [{TIME_SYNTAX}|KEEPTTL]",
    "write denyoom movablekeys",
    keys=Keys(count_at=1, apart=2),
    access="OW update",
    since="8.4.0",
    complexity="O(keys)",
)
def msetex(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets several strings and their common expiry. NX: only if no key exists. XX: only if all keys exist."""
    count = parse_int(argv[1], data.NUMKEYS_INVALID)
    if not 0 < count < _TOO_MANY:
        raise CommandError(data.NUMKEYS_INVALID)
    if 2 * count > len(argv) - 2:
        raise CommandError(data.PAIRS_MISSING)
    args = Args(argv, 2 + 2 * count)
    keys, values = argv[2 : args.pos : 2], argv[3 : args.pos : 2]
    exists: bool | None = None
    time = TimeOption()
    while len(args):
        word = args.peek()
        if word in {b"NX", b"XX"} and exists is not (word == b"NX"):
            exists = word == b"XX"
            args.take()
        elif not time.parse(args, b"KEEPTTL"):
            raise CommandError(general.SYNTAX)
    deadline = time.deadline(ctx, b"msetex")
    if exists is not None and any((ctx.db.get(key) is not None) is not exists for key in keys):
        return 0
    for key, value in zip(keys, values, strict=True):
        ctx.db.report_overwritten(key, ctx.db.set(key, value, keep_ttl=time.keeps), value)
        if deadline is not None:
            ctx.db.set_deadline(key, deadline)
            ctx.changes.notify("g", b"expire", key, ctx.db.index)
        ctx.changes.notify("$", b"set", key, ctx.db.index)
        if deadline is not None:
            ctx.effect(b"SET", key, value, b"PXAT", b"%d" % deadline)
        elif time.keeps:
            ctx.effect(b"SET", key, value, b"KEEPTTL")
    if deadline is None and not time.keeps:
        ctx.effect(b"MSET", *argv[2 : 2 + 2 * count])
    return 1
