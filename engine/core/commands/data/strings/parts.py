"""Strings as sequences of bytes: their length, parts of them, and changes in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.data.strings.values import String, checked, string_at
from engine.core.commands.families import string_command
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import data

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@string_command("strlen key", "readonly fast", access="RO", since="2.2.0")
def strlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the length of the string at a key."""
    return len(checked(ctx.db.read(argv[1])) or b"")


def _getrange(ctx: Context, argv: list[bytes]) -> Reply:
    start, end = parse_int(argv[2]), parse_int(argv[3])
    value = checked(ctx.db.read(argv[1])) or b""
    if start < 0 and end < 0 and start > end:
        return b""
    length = len(value)
    start = max(start + length, 0) if start < 0 else start
    end = max(end + length, 0) if end < 0 else end
    return bytes(value[start : end + 1])


for _name, _since, _summary in (
    ("getrange", "2.4.0", "Returns a part of a string, both ends included; negative positions count from the end."),
    ("substr", "1.0.0", "Returns a part of a string. SUBSTR is the former name of GETRANGE."),
):
    string_command(f"{_name} key start end", "readonly", since=_since, complexity="O(length)", summary=_summary)(
        _getrange
    )


def _check_length(ctx: Context, length: int) -> None:
    if length > ctx.config.integer("proto-max-bulk-len"):
        raise CommandError(data.STRING_TOO_LONG)


def _raw(ctx: Context, key: bytes, value: String) -> bytearray:
    """Return the value at ``key`` as a bytearray. If the stored value is immutable, replace it with the bytearray."""
    if isinstance(value, bytearray):
        return value
    raw = bytearray(value)
    ctx.db.set(key, raw, keep_ttl=True, changes=0)
    return raw


@string_command(
    "append key value",
    "write denyoom fast",
    access="RW insert",
    since="2.0.0",
    complexity="O(length of the appended string)",
)
def append(ctx: Context, argv: list[bytes]) -> Reply:
    """Appends to the string at a key, and returns its new length."""
    key, more = argv[1], argv[2]
    value = string_at(ctx, key)
    if value is None:
        ctx.db.add(key, more)
        length = len(more)
    else:
        _check_length(ctx, len(value) + len(more))
        raw = _raw(ctx, key, value)
        raw += more
        ctx.db.touch(key)
        length = len(raw)
    ctx.changes.notify("$", b"append", key, ctx.db.index)
    ctx.effect(b"APPEND", key, more)
    return length


@string_command("setrange key offset value", "write denyoom", since="2.2.0", complexity="O(length)")
def setrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Overwrites a part of the string at a key and returns the new length.

    A string shorter than the offset is first padded with zero bytes.
    """
    key, part = argv[1], argv[3]
    offset = parse_int(argv[2])
    if offset < 0:
        raise CommandError(data.OFFSET_RANGE)
    value = string_at(ctx, key)
    if not part:
        return len(value or b"")
    _check_length(ctx, offset + len(part))
    if value is None:
        raw = bytearray()
        ctx.db.add(key, raw, changes=0)
    else:
        raw = _raw(ctx, key, value)
    raw.extend(bytes(max(offset - len(raw), 0)))
    raw[offset : offset + len(part)] = part
    ctx.db.touch(key)
    ctx.changes.notify("$", b"setrange", key, ctx.db.index)
    ctx.effect(b"SETRANGE", key, argv[2], part)
    return len(raw)
