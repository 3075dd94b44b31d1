"""Lookups of streams and consumer groups. Functions named ``need_`` raise Redis's error if the object is missing."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.environment.context import Context
from engine.core.protocol.replies import CommandError
from engine.core.streams.group import Group
from engine.core.streams.stream import Stream
from engine.text import messages


def need_stream(ctx: Context, key: bytes, *, reading: bool = False) -> Stream:
    """Return the stream at ``key``. With ``reading``, the caller must not change it."""
    stream = ctx.db.read_stream(key) if reading else ctx.db.stream(key)
    if stream is None:
        raise CommandError(messages.NO_SUCH_KEY)
    return stream


class GroupRef:
    """A consumer group with its name, its stream, and the stream's key."""

    __slots__ = ("group", "key", "name", "stream")

    def __init__(self, key: bytes, stream: Stream, name: bytes, group: Group) -> None:
        self.key, self.stream, self.name, self.group = key, stream, name, group


def group_if_there(ctx: Context, key: bytes, name: bytes) -> Group | None:
    """Return the group of the stream at ``key``, None if either is missing."""
    stream = ctx.db.stream(key)
    return stream.group(name) if stream is not None and name in stream.groups else None


def need_group(
    ctx: Context,
    key: bytes,
    name: bytes,
    error: Callable[[bytes, bytes], bytes] = messages.no_group,
    *,
    again: bool = False,
) -> GroupRef:
    """Return the group of the stream at ``key``. Raise ``error`` of key and group name if either is missing.

    ``again``: whether the command has looked the key up before, so that the lookup is not counted as a hit or a miss.
    """
    stream = ctx.db.stream(key) if again else ctx.db.read_stream(key)
    if stream is None or name not in stream.groups:
        raise CommandError(error(key, name))
    return GroupRef(key, stream, name, stream.group(name))
