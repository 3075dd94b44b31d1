"""SCAN, and the parsing and replies that it shares with HSCAN."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from engine.core.commands.families import key_command
from engine.core.keyspace.database import TYPE_NAMES
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Reply, holding, paged
from engine.core.table.registry import NO_KEYS
from engine.text import messages
from engine.text.globs import matcher

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Number of names processed per step.
_NAMES_PER_STEP = 2000
#: Input that C's strtoull accepts: whitespace, sign and digits, up to the first zero byte.
_CURSOR = re.compile(rb"[ \t-\r]*([+-]?)0*(\d{1,20})(?:\0.*)?", re.DOTALL)


def parse_cursor(word: bytes) -> int:
    """Parse a cursor of SCAN or HSCAN: any 64-bit number.

    A canonical negative number (``-1``) is refused. A non-canonical negative number (``-01``, or below the signed
    range) wraps around, as in Redis.
    """
    found = _CURSOR.fullmatch(word)
    if found is None or (cursor := int(found[2])) >= 1 << 64:
        raise CommandError(messages.INVALID_CURSOR)
    if found[1] != b"-":
        return cursor
    if 0 < cursor <= 1 << 63 and word == b"-%d" % cursor:
        raise CommandError(messages.INVALID_CURSOR)
    return -cursor % (1 << 64)


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
                raise CommandError(messages.NOVALUES_OF_KEYS)
            names_only = True
        else:
            raise CommandError(messages.SYNTAX)
    return pattern, count, kind, names_only


def scan_reply(
    ctx: Context,
    argv: list[bytes],
    cursor: int,
    count: int,
    walk: Callable[[int, int], tuple[int, list[bytes]]],
    found: Callable[[list[bytes]], list[Reply]],
) -> Reply:
    """Return a scan's reply (next cursor, results of ``found`` for the names), in steps if there are many names.

    ``walk`` is a method like ``Hash.walk``. Between the steps, names may change as between the calls of an iteration.
    """
    following, names = walk(cursor, min(count, _NAMES_PER_STEP))
    if not following or count <= _NAMES_PER_STEP:
        return [b"%d" % following, found(names)]

    def work() -> Generator[None, None, Reply]:
        elements, position, left = found(names), following, count
        while position and (left := left - _NAMES_PER_STEP) > 0:
            yield
            position, more = walk(position, min(left, _NAMES_PER_STEP))
            elements += found(more)
        return holding([b"%d" % position, paged(elements)])

    return ctx.in_steps(argv, work())


@key_command(
    "scan cursor [MATCH pattern] [COUNT count] [TYPE type]",
    "readonly",
    keys=NO_KEYS,
    since="2.8.0",
    complexity="O(COUNT) per step",
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

    return scan_reply(ctx, argv, cursor, count, db.scan, found)
