"""DUMP and RESTORE: values in Redis's own format, for copying in both directions between this engine and Redis."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from engine.core.commands.data.expiry import is_past
from engine.core.commands.families import key_command
from engine.core.formats.damage import UnsupportedValueError
from engine.core.formats.rdb import primitives as rdb
from engine.core.formats.rdb import value_reader, writer
from engine.core.formats.rdb.primitives import BadFormatError, Reader, crc64
from engine.core.formats.rdb.value_reader import NEWEST_VERSION, VALKEY_VERSION
from engine.core.keyspace.database import Value
from engine.core.keyspace.hash import Hash
from engine.core.protocol import pace
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Pages, Reply, Several
from engine.core.streams.segment import Storage
from engine.core.streams.stream import Stream
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

T = TypeVar("T")
_TAIL = struct.Struct("<HQ")
#: Number of bytes up to which DUMP writes more pieces per step.
_SHORT = 4096


def dumped(value: Value) -> bytes:
    """Return the payload of a value: type, value, version, checksum."""
    return _whole(*writer.dumped(value))


def _dumped_as(value: Value, version: int) -> bytes:
    kind, pieces = writer.encoded(value, version)
    return _whole(version, chain((bytes((kind,)),), pieces))


def _whole(version: int, pieces: Iterable[bytes]) -> bytes:
    body = b"".join((*pieces, struct.pack("<H", version)))
    return body + struct.pack("<Q", crc64(body))


def _dump(version: int, pieces: Iterator[bytes]) -> Generator[None, None, Reply]:
    """Build the payload from the ``pieces`` of an encoded value; return a long one in chunks, sent one by one."""
    chunks: list[bytes] = []
    waiting: list[bytes] = []
    size = 0
    while found := list(islice(pieces, pace.PIECES)):
        if chunks or waiting:
            yield
        # The pieces of groups without pending entries are short: take more of them.
        while sum(map(len, found)) < _SHORT and (more := list(islice(pieces, len(found)))):
            found += more
        waiting += found
        size += sum(map(len, found))
        if size >= pace.CHECKED:
            chunks.append(b"".join(waiting))
            waiting, size = [], 0
    chunks.append(b"".join((*waiting, struct.pack("<H", version))))
    crc = 0
    for number, chunk in enumerate(chunks):
        if number:
            yield
        crc = yield from _check_sum(memoryview(chunk), crc)
    chunks.append(struct.pack("<Q", crc))
    size = sum(map(len, chunks))
    return Pages(bytes, size, _sent(chunks), size) if size > pace.PAYLOAD else b"".join(chunks)


def _sent(chunks: list[bytes]) -> Iterator[list[Reply]]:
    """Yield the chunks and a line end, and free each chunk, because freeing all at the end would block the server."""
    chunks.reverse()
    while chunks:
        yield [Several(1, [chunks.pop()])]
    yield [Several(1, [b"\r\n"])]


def _check_sum(payload: memoryview, crc: int = 0) -> Generator[None, None, int]:
    for at in range(0, len(payload), pace.CHECKED):
        if at:
            yield
        crc = crc64(payload[at : at + pace.CHECKED], crc)
    return crc


def _loaded(ctx: Context, payload: bytes) -> Generator[None, None, Value]:
    """Load the value of a payload in steps. Raise CommandError if the payload is invalid."""
    if len(payload) < _TAIL.size:
        raise CommandError(messages.BAD_DUMP)
    version, check = _TAIL.unpack_from(payload, len(payload) - _TAIL.size)
    known = version <= NEWEST_VERSION or version == VALKEY_VERSION
    if not known or (yield from _check_sum(memoryview(payload)[:-8])) != check:
        raise CommandError(messages.BAD_DUMP)
    reader = Reader(payload)
    makers = value_reader.makers(ctx.config, ctx.streams.new)
    try:
        value = yield from _in_turns(
            value_reader.load(reader, reader.byte(), makers, is_valkey=version == VALKEY_VERSION)
        )
    except (BadFormatError, LookupError, ValueError, TypeError, RuntimeError, OverflowError):
        raise CommandError(messages.BAD_DUMP_BODY) from None
    if reader.at != len(payload) - _TAIL.size:
        raise CommandError(messages.BAD_DUMP_BODY)
    if isinstance(value, value_reader.Unsupported):
        raise UnsupportedValueError(value.kind)
    return value


def _in_turns(reading: rdb.Steps[T]) -> Generator[None, None, T]:
    """Run ``pace.PIECES`` steps of a reader in each step. The reader must already have all of its input."""
    while True:
        try:
            for _ in range(pace.PIECES):
                next(reading)
        except StopIteration as end:
            value: T = end.value
            return value
        yield


@key_command("dump key", "readonly")
def dump(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a key's value as bytes that RESTORE reads."""
    value = ctx.db.read(argv[1])
    if value is None:
        return None
    if isinstance(value, Stream):
        # Encode a copy, which shares immutable parts, so that other commands can change the stream meanwhile.
        value = value.copy(Storage.for_reading_once())
    return ctx.in_steps(argv, _dump(*writer.dumped(value)), is_apart=not isinstance(value, Hash))


@key_command(
    "restore key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    "write denyoom",
    access="OW update",
    acl="keyspace dangerous",
)
def restore(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates a key from the bytes that DUMP returned."""
    key, payload, db = argv[1], argv[3], ctx.db
    args = Args(argv, 4)
    replace = absolute = False
    while len(args):
        if args.flag(b"REPLACE"):
            replace = True
        elif args.flag(b"ABSTTL"):
            absolute = True
        elif args.option(b"IDLETIME") or args.option(b"FREQ"):
            # A master may send them; the engine keeps no times of use.
            args.take_int()
        else:
            raise CommandError(messages.SYNTAX)
    if not replace and db.get(key) is not None:
        raise CommandError(b"BUSYKEY Target key name already exists.")
    ttl = parse_int(argv[2])
    if ttl < 0:
        raise CommandError(b"ERR Invalid TTL value, must be >= 0")

    def work() -> Generator[None, None, Reply]:
        now = ctx.now
        value = yield from _loaded(ctx, payload)
        deadline = None
        if ttl:
            deadline = ttl if absolute else ttl + now
            if deadline >= 1 << 63:
                # An error, unlike in Redis: there the sum overflows, and the key is deleted immediately.
                raise CommandError(messages.invalid_expire(b"restore"))
        return _put(ctx, argv, value, deadline)

    return ctx.in_steps(argv, work())


def _put(ctx: Context, argv: list[bytes], value: Value, deadline: int | None) -> Reply:
    key, payload, db = argv[1], argv[3], ctx.db
    goes_at_once = deadline is not None and is_past(ctx, deadline)
    former = db.get(key)
    deleted = db.delete(key, changes=int(goes_at_once))
    if goes_at_once:
        ctx.changes.expired_keys += 1
        if deleted:
            ctx.effect(b"DEL", key)
            ctx.changes.notify("g", b"del", key, db.index)
        return OK
    db.add(key, value)
    db.set_deadline(key, deadline)
    ctx.changes.notify("g", b"restore", key, db.index)
    db.report_overwritten(key, former, value)
    version = ctx.config.integer("rdb-version")
    if ctx.replication.feeds and int.from_bytes(payload[-10:-8], "little") > version:
        # Replicas may not be able to read a newer format than this server writes, so encode the value again.
        payload = _dumped_as(value, version)
    ctx.effect(b"RESTORE", key, b"%d" % (deadline or 0), payload, b"REPLACE", b"ABSTTL")
    return OK
