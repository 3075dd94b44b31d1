"""OBJECT: a value's encoding, and the idle time and use frequency of its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.keyspace.database import Value
from engine.core.keyspace.hash import Hash
from engine.core.protocol.args import as_number
from engine.core.protocol.replies import CommandError, Reply
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text.messages import data

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Total size of a key and its string, in bytes, up to which Redis stores both in one allocation.
_EMBEDDED_MAX = 41

object_subcommand = container(
    "object",
    "Commands that inspect how values are stored.",
    group="generic",
    acl="keyspace",
    since="2.2.3",
    flags="readonly",
    keys=SUB_KEY,
    help_since="6.2.0",
)


def encoding(key: bytes, value: Value) -> bytes:
    """Return the encoding of a value: for a string, the one that Redis would choose."""
    if type(value) is bytes:
        if as_number(value) is not None:
            return b"int"
        return b"embstr" if len(key) + len(value) <= _EMBEDDED_MAX else b"raw"
    return b"hashtable" if type(value) is Hash else b"stream"


@object_subcommand("encoding key", access="RO")
def object_encoding(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the encoding of a value."""
    value = ctx.db.peek(argv[2])
    return None if value is None else encoding(argv[2], value)


@object_subcommand("refcount key", access="RO")
def object_refcount(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the reference count of a value, which is always 1."""
    return None if ctx.db.peek(argv[2]) is None else 1


@object_subcommand("idletime key", access="RO")
def object_idletime(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of seconds since a key was last used."""
    if ctx.db.peek(argv[2]) is None:
        return None
    return ctx.db.idle(argv[2]) // 1000


@object_subcommand("freq key", access="RO", since="4.0.0")
def object_freq(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an error: the engine does not count uses of keys."""
    if ctx.db.peek(argv[2]) is None:
        return None
    raise CommandError(data.NO_LFU)
