"""The encoder: replies to bytes, in RESP2 and RESP3.

Each protocol has a table from types of replies (``engine.core.protocol.replies``) to functions, which is also used for
the elements of a list. Long values and entries' frames become buffers of their own, without a copy. BLOCKED and
NO_REPLY have no bytes and must not be passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

Out = list[bytes | memoryview]
Encoder = Callable[[Any, Out], None]

#: A value of at least this many bytes becomes a buffer of its own, instead of being copied behind its header.
LONG = 8192

_NO_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
_SMALL = [b":%d\r\n" % number for number in range(1024)]


class _Table(dict[type, Encoder]):
    """Type -> encoder. A subclass gets its base's encoder when it is first used."""

    def __missing__(self, kind: type) -> Encoder:
        for base in kind.__mro__[1:]:
            if base in self:
                self[kind] = self[base]
                return self[base]
        raise TypeError(f"{kind.__name__} is not a type of reply")


#: The encoders of each protocol by the type of reply.
RESP2 = _Table()
RESP3 = _Table()


def encode(reply: Reply, proto: int, out: Out) -> None:
    """Append the bytes of ``reply`` in RESP ``proto`` (2 or 3) to ``out``."""
    (RESP3 if proto == 3 else RESP2)[type(reply)](reply, out)


def encoded(reply: Reply, proto: int = 2) -> bytes:
    """Return the bytes of one reply."""
    out: Out = []
    encode(reply, proto, out)
    return b"".join(out)


def pages_of(reply: Pages, proto: int) -> Iterator[Out]:
    """Yield the bytes of a long reply, in pieces that each take at most a few milliseconds to make."""
    table, header = (RESP3 if proto == 3 else RESP2), _HEADERS[proto == 3][reply.kind]
    size = reply.size // 2 if reply.kind is Map and proto == 3 else reply.size
    out: Out = [header % size] if header else []
    for page in reply.pages:
        for item in page:
            value = item
            if reply.kind is ByKey:
                key, value = item
                out.append(b"%b$%d\r\n%b\r\n" % (b"" if proto == 3 else b"*2\r\n", len(key), key))
            if type(value) is Pages:
                for part in pages_of(value, proto):
                    out += part
                    yield out
                    out = []
            else:
                table[type(value)](value, out)
        yield out
        out = []
    if out:
        yield out


#: Headers of long replies by kind, in RESP2 and RESP3.
_HEADERS: tuple[dict[type, bytes], dict[type, bytes]] = (
    {**dict.fromkeys((list, Map, Set, ByKey), b"*%d\r\n"), Raw: b"", bytes: b"$%d\r\n"},
    {Raw: b"", bytes: b"$%d\r\n", list: b"*%d\r\n", Map: b"%%%d\r\n", Set: b"~%d\r\n", ByKey: b"%%%d\r\n"},
)


# -- the same in both protocols ---------------------------------------------------------------------------------------


def _bulk(reply: bytes, out: Out) -> None:
    size = len(reply)
    if size < LONG:
        out.append(b"$%d\r\n%b\r\n" % (size, reply))
    else:
        out.append(b"$%d\r\n" % size)
        out.append(reply)
        out.append(b"\r\n")


def _integer(reply: int, out: Out) -> None:
    out.append(_SMALL[reply] if 0 <= reply < 1024 else b":%d\r\n" % reply)


def _simple(reply: bytes, out: Out) -> None:
    out.append(b"+%b\r\n" % reply)


def _error(reply: CommandError, out: Out) -> None:
    text = reply.text
    if b"\n" in text or b"\r" in text:
        text = text.translate(_NO_LINE_ENDS)
    out.append(b"-%b\r\n" % text)


def _raw(reply: bytes, out: Out) -> None:
    out.append(reply)


def _frames(reply: Frames, out: Out) -> None:
    out.append(b"*%d\r\n" % reply.count)
    out.extend(reply.parts)


def _several(reply: Several, out: Out) -> None:
    out.extend(reply.parts)


# -- different in each protocol ----------------------------------------------------------------------------------------


def _aggregate(header: bytes, table: _Table, items_per_count: int = 1) -> Encoder:
    def run(reply: list[Any], out: Out) -> None:
        out.append(header % (len(reply) // items_per_count))
        append = out.append
        for item in reply:
            kind = type(item)
            if kind is bytes and len(item) < LONG:
                append(b"$%d\r\n%b\r\n" % (len(item), item))
            else:
                table[kind](item, out)

    return run


def _with_several(table: _Table) -> Encoder:
    def run(reply: Array, out: Out) -> None:
        out.append(b"*%d\r\n" % sum(item.count if type(item) is Several else 1 for item in reply))
        for item in reply:
            table[type(item)](item, out)

    return run


def _by_key(header: bytes, pair: bytes, table: _Table) -> Encoder:
    def run(reply: list[tuple[bytes, Reply]], out: Out) -> None:
        out.append(header % len(reply))
        for key, value in reply:
            out.append(b"%b$%d\r\n%b\r\n" % (pair, len(key), key))
            table[type(value)](value, out)

    return run


def _whole(proto: int) -> Encoder:
    def run(reply: Pages, out: Out) -> None:
        for part in pages_of(reply, proto):
            out += part

    return run


def _constant(text: bytes) -> Encoder:
    def run(reply: Any, out: Out) -> None:  # noqa: ARG001
        out.append(text)

    return run


def _double(reply: float) -> bytes:
    return repr(reply).removesuffix(".0").encode()


def _double2(reply: float, out: Out) -> None:
    _bulk(_double(reply), out)


def _double3(reply: float, out: Out) -> None:
    out.append(b",%b\r\n" % _double(reply))


def _verbatim3(reply: bytes, out: Out) -> None:
    out.append(b"=%d\r\ntxt:%b\r\n" % (len(reply) + 4, reply))


for _table in (RESP2, RESP3):
    _array = _aggregate(b"*%d\r\n", _table)
    _table.update(
        {
            bytes: _bulk,
            int: _integer,
            Simple: _simple,
            CommandError: _error,
            Raw: _raw,
            Frames: _frames,
            list: _array,
            tuple: _array,
            Array: _with_several(_table),
            Several: _several,
        }
    )

RESP2.update(
    {
        type(None): _constant(b"$-1\r\n"),
        type(NIL_ARRAY): _constant(b"*-1\r\n"),
        float: _double2,
        Verbatim: _bulk,
        Map: RESP2[list],
        Set: RESP2[list],
        Push: RESP2[list],
        ByKey: _by_key(b"*%d\r\n", b"*2\r\n", RESP2),
        Pages: _whole(2),
    }
)
RESP3.update(
    {
        type(None): _constant(b"_\r\n"),
        type(NIL_ARRAY): _constant(b"_\r\n"),
        float: _double3,
        Verbatim: _verbatim3,
        Map: _aggregate(b"%%%d\r\n", RESP3, 2),
        Set: _aggregate(b"~%d\r\n", RESP3),
        Push: _aggregate(b">%d\r\n", RESP3),
        ByKey: _by_key(b"%%%d\r\n", b"", RESP3),
        Pages: _whole(3),
    }
)
