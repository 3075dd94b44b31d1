"""Conversion of replies to Lua's values: the result of `redis.call` for a script, in RESP2 or RESP3.

A command's reply is a Python object (`engine.core.protocol.replies`). Text and integers are passed unchanged, and a
list becomes a table, recursively. Replies that exist only as encoded bytes (entries, pages) are parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.protocol.replies import (
    NIL_ARRAY,
    Array,
    ByKey,
    CommandError,
    Frames,
    Map,
    Pages,
    Push,
    Raw,
    Reply,
    Set,
    Several,
    Simple,
    Verbatim,
)
from engine.text import doubles
from engine.text.messages import general


class UnconvertibleError(Exception):
    """The reply cannot be represented in Lua."""


def converted(reply: Reply, resp: int) -> Any:
    """Convert a reply to bytes, numbers, booleans, lists and dicts, which lupa converts to Lua; None is nil."""
    convert = _CONVERT.get(type(reply))
    if convert is None:
        raise UnconvertibleError(general.INTERNAL_ERROR)
    return convert(reply, resp)


def _same(reply: Reply, _: int) -> Any:
    return reply


def _nil(reply: Reply, resp: int) -> Any:
    if reply is not None and reply is not NIL_ARRAY:
        raise UnconvertibleError(general.INTERNAL_ERROR)
    return None if resp == 3 else False


def _list(reply: list[Any] | tuple[Any, ...], resp: int) -> Any:
    return [element if type(element) is bytes else converted(element, resp) for element in reply]


def _double(reply: float, resp: int) -> Any:
    return {b"double": reply} if resp == 3 else doubles.text(reply)


def _verbatim(reply: Verbatim, resp: int) -> Any:
    return {b"verbatim_string": {b"format": b"txt", b"string": bytes(reply)}} if resp == 3 else bytes(reply)


def _map(reply: list[Any], resp: int) -> Any:
    flat = _list(reply, resp)
    return {b"map": _table(flat)} if resp == 3 else flat


def _table(flat: list[Any]) -> dict[Any, Any]:
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return {_key(key): value for key, value in pairs if key is not None}


def _set(reply: list[Any], resp: int) -> Any:
    flat = [converted(element, resp) for element in reply]
    return {b"set": _members(flat)} if resp == 3 else flat


class _TableAsKey(dict[Any, Any]):
    """A table that is a key of another table, such as a status reply in a set."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # (a dict is not hashable)

    def __eq__(self, other: object) -> bool:
        return self is other


def _members(flat: list[Any]) -> dict[Any, Any]:
    return {_key(element): True for element in flat if element is not None}


def _key(value: Any) -> Any:
    if isinstance(value, list):
        return _TableAsKey(enumerate(value, 1))
    return _TableAsKey(value) if isinstance(value, dict) else value


def _by_key(reply: list[Any], resp: int) -> Any:
    if resp == 3:
        return _map([part for pair in reply for part in pair], resp)
    return [converted(list(pair), resp) for pair in reply]


def _array(reply: list[Any], resp: int) -> Any:
    found: list[Any] = []
    for element in reply:
        if type(element) is Several:
            found += _parsed(element.count, b"".join(element.parts), resp)
        else:
            found.append(converted(element, resp))
    return found


def _frames(reply: Frames, resp: int) -> Any:
    data = b"".join(reply.parts)
    lines, at, entries = data.split(b"\r\n"), 0, []
    for _ in range(reply.count):
        end = at + 4 + 2 * int(lines[at + 3][1:])
        words = lines[at + 5 : end : 2]
        if not words or lines[at + 4 : end : 2] != [b"$%d" % len(word) for word in words]:
            # A word contains a line end, or the entry has been deleted.
            return _parsed(reply.count, data, resp)
        entries.append([lines[at + 2], words])
        at = end
    return entries


def _raw(reply: Raw, resp: int) -> Any:
    return _parsed(1, bytes(reply), resp)[0]


def _pages(reply: Pages, resp: int) -> Any:
    items = [item for page in reply.pages for item in page]
    if reply.kind is bytes:
        return b"".join(bytes(part) for item in items for part in (item.parts if type(item) is Several else (item,)))[
            : reply.size
        ]
    if reply.kind is Raw:
        data = b"".join(bytes(part) for item in items for part in (item.parts if type(item) is Several else (item,)))
        return _parsed(1, data, resp)[0]
    if reply.kind in (list, Array):
        return _array(items, resp)
    if any(type(item) is Several for item in items):
        items = _array(items, resp)
        return _wrapped(reply.kind, items, resp)
    return converted(reply.kind(items), resp)


def _wrapped(kind: Any, flat: list[Any], resp: int) -> Any:
    if resp != 3 or kind is ByKey:
        return flat
    return {b"map": _table(flat)} if kind is Map else {b"set": _members(flat)}


def _error(reply: CommandError, resp: int) -> Any:
    del resp
    return {b"err": reply.text}


_CONVERT: dict[type, Callable[[Any, int], Any]] = {
    bytes: _same,
    int: _same,
    type(None): _nil,
    type(NIL_ARRAY): _nil,
    Simple: lambda reply, _: {b"ok": bytes(reply)},
    list: _list,
    tuple: _list,
    Push: _list,
    float: _double,
    bytearray: lambda reply, _: bytes(reply),
    memoryview: lambda reply, _: bytes(reply),
    bool: lambda reply, _: int(reply),
    Verbatim: _verbatim,
    Map: _map,
    Set: _set,
    ByKey: _by_key,
    Array: _array,
    Frames: _frames,
    Raw: _raw,
    Pages: _pages,
    CommandError: _error,
}


def _parsed(count: int, data: bytes, resp: int) -> list[Any]:
    """Parse ``count`` encoded values."""
    at = 0

    def value() -> Any:
        nonlocal at
        end = data.index(b"\r\n", at)
        mark, text = data[at : at + 1], data[at + 1 : end]
        at = end + 2
        if mark == b"$":
            size = int(text)
            if size < 0:
                return None if resp == 3 else False
            found = data[at : at + size]
            at += size + 2
            return found
        if mark == b":":
            return int(text)
        if mark in b"*~":
            size = int(text)
            if size < 0:
                return None if resp == 3 else False
            items = [value() for _ in range(size)]
            return {b"set": _members(items)} if mark == b"~" and resp == 3 else items
        if mark == b"%":
            items = [value() for _ in range(2 * int(text))]
            return {b"map": _table(items)} if resp == 3 else items
        if mark == b"_":
            return None if resp == 3 else False
        if mark == b",":
            return {b"double": float(text)} if resp == 3 else text
        if mark == b"+":
            return {b"ok": text}
        raise UnconvertibleError(general.INTERNAL_ERROR)

    return [value() for _ in range(count)]


_TEXTS = frozenset({bytes})


def size_of(value: Any) -> int:
    """Return the approximate size of the value in Lua, in bytes."""
    if type(value) is bytes:
        return len(value) + 64
    if isinstance(value, list):
        if _TEXTS.issuperset(map(type, value)):
            return 128 + sum(map(len, value)) + 96 * len(value)
        return 128 + sum(map(size_of, value)) + 32 * len(value)
    if isinstance(value, dict):
        return 256 + sum(size_of(key) + size_of(item) + 80 for key, item in value.items())
    return 32
