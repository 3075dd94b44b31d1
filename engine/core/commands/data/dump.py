"""DUMP and RESTORE: values in Redis's own form, so that they travel between this engine and real servers, both ways."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from engine.core.commands.data.expiry import is_past
from engine.core.commands.data.hashes import small_hash_limits
from engine.core.commands.families import key_command
from engine.core.formats import rdb_stream
from engine.core.formats.rdb import BadFormatError, Reader, crc64, length, listpack, read_listpack, string
from engine.core.keyspace.database import Value
from engine.core.keyspace.hash import Hash
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Pages, Reply, Several, Steps
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream
from engine.text.messages import data, general

if TYPE_CHECKING:
    from engine.core.environment.context import Context

_STRING, _LIST, _HASH, _HASH_LISTPACK, _QUICKLIST = 0, 1, 4, 16, 18
_PLAIN, _PACKED = 1, 2
#: What every server since 7.0 reads.
_RDB_VERSION = 10
#: The newest version that is read.
_NEWEST_RDB_VERSION = 14
_TAIL = struct.Struct("<HQ")
#: Seconds, the most that Redis's clock of 24 bits counts.
_LONGEST_IDLE = (1 << 24) - 1
#: Elements of a list are packed in nodes of about this many bytes; longer ones stand alone.
_NODE_BYTES = 4096
#: A stream of more entries and pending entries, and a payload of more bytes, are written and read in steps: of so many
#: nodes or records, and for the check sum of so many bytes.
_LONG, _LONG_PAYLOAD = 2000, 200_000
_NODES, _RECORDS, _CHECKED = 4, 2000, 256 * 1024


def dumped(value: Value) -> bytes:
    """The payload of a value: type, value, version, check sum."""
    version = _RDB_VERSION
    if isinstance(value, bytes | bytearray):
        body = bytes((_STRING,)) + string(bytes(value))
    elif isinstance(value, Hash):
        body = _dump_hash(value)
    elif isinstance(value, deque):
        nodes = _list_nodes(value)
        body = bytes((_QUICKLIST,)) + length(len(nodes)) + b"".join(nodes)
    else:
        form = rdb_stream.form_of(value)
        version = rdb_stream.RDB_VERSIONS[form]
        body = bytes((form,)) + b"".join(rdb_stream.dump(value, form))
    body += struct.pack("<H", version)
    return body + struct.pack("<Q", crc64(body))


def _dump_in_steps(stream: Stream) -> Generator[None, None, Reply]:
    """The payload of a long stream that does not change, in chunks that are sent one by one."""
    form = rdb_stream.form_of(stream)
    chunks: list[bytes] = [b""]
    nodes = yield from _join(rdb_stream.nodes(stream), _NODES, chunks)
    chunks[0] = bytes((form,)) + length(nodes)
    yield from _join(rdb_stream.behind_nodes(stream, form), _RECORDS, chunks)
    chunks.append(struct.pack("<H", rdb_stream.RDB_VERSIONS[form]))
    crc = 0
    for chunk in chunks:
        crc = crc64(chunk, crc)
        yield
    chunks.append(struct.pack("<Q", crc))
    return Pages(bytes, sum(map(len, chunks)), ([Several(1, [chunk])] for chunk in [*chunks, b"\r\n"]))


def _join(pieces: Iterator[bytes], step: int, chunks: list[bytes]) -> Generator[None, None, int]:
    """Join pieces, ``step`` of them at a time, to chunks; how many pieces there are."""
    waiting: list[bytes] = []
    count = size = 0
    while found := list(islice(pieces, step)):
        count += len(found)
        waiting += found
        size += sum(map(len, found))
        if size >= _CHECKED:
            chunks.append(b"".join(waiting))
            waiting, size = [], 0
        yield
    chunks.append(b"".join(waiting))
    return count


def _check_sum(payload: memoryview) -> Generator[None, None, int]:
    crc = 0
    for at in range(0, len(payload), _CHECKED):
        if at:
            yield
        crc = crc64(payload[at : at + _CHECKED], crc)
    return crc


def _dump_hash(fields: Hash) -> bytes:
    words = [word for pair in fields.items() for word in pair]
    if fields.big:
        return bytes((_HASH,)) + length(len(fields)) + b"".join(map(string, words))
    packed = listpack(words)
    return bytes((_HASH_LISTPACK,)) + length(len(packed)) + packed


def _list_nodes(items: deque[bytes]) -> list[bytes]:
    nodes: list[bytes] = []
    waiting: list[bytes] = []
    size = 0

    def pack() -> None:
        if waiting:
            packed = listpack(waiting)
            nodes.append(length(_PACKED) + length(len(packed)) + packed)
            waiting.clear()

    for item in items:
        if size + len(item) > _NODE_BYTES:
            pack()
            size = 0
        if len(item) > _NODE_BYTES:
            nodes.append(length(_PLAIN) + length(len(item)) + item)
        else:
            waiting.append(item)
            size += len(item)
    pack()
    return nodes


def _loaded(ctx: Context, payload: bytes) -> Generator[None, None, Value]:
    """The value of a payload, step by step; a CommandError where it is none."""
    if len(payload) < _TAIL.size:
        raise CommandError(data.BAD_DUMP)
    version, check = _TAIL.unpack_from(payload, len(payload) - _TAIL.size)
    if version > _NEWEST_RDB_VERSION or (yield from _check_sum(memoryview(payload)[:-8])) != check:
        raise CommandError(data.BAD_DUMP)
    reader = Reader(payload)
    try:
        value = yield from _load_value(ctx, reader)
    except (BadFormatError, LookupError, ValueError, StopIteration, RuntimeError, OverflowError):
        raise CommandError(data.BAD_DUMP_BODY) from None
    if value is None or reader.at != len(payload) - _TAIL.size:
        raise CommandError(data.BAD_DUMP_BODY)
    return value


def _load_value(ctx: Context, reader: Reader) -> Generator[None, None, Value | None]:
    """The value, None where its type is unknown or it is empty."""
    kind = reader.byte()
    if kind == _STRING:
        return reader.string()
    if kind in rdb_stream.FORMS:
        config = ctx.config

        def defaults() -> tuple[int, int]:
            return config.integer("stream-idmp-duration"), config.integer("stream-idmp-maxsize")

        stream = ctx.streams.new()
        for number, _ in enumerate(rdb_stream.load(reader, kind, stream, defaults)):
            if not number % _NODES:
                yield
        return stream
    if kind in (_HASH, _HASH_LISTPACK):
        words = (
            [reader.string() for _ in range(2 * reader.length())] if kind == _HASH else read_listpack(reader.string())
        )
        fields, limits = Hash(), small_hash_limits(ctx)
        for at in range(0, len(words), 2):
            if not fields.put(words[at], words[at + 1], limits):
                raise BadFormatError
        return fields or None
    if kind in (_LIST, _QUICKLIST):
        return _load_list(reader, kind) or None
    return None


def _load_list(reader: Reader, kind: int) -> deque[bytes]:
    items: deque[bytes] = deque()
    for _ in range(reader.length()):
        if kind == _LIST:
            items.append(reader.string())
            continue
        container, element = reader.length(), reader.string()
        if container == _PLAIN:
            items.append(element)
        elif container == _PACKED:
            items.extend(read_listpack(element))
        else:
            raise BadFormatError
    return items


@key_command("dump key", "readonly", since="2.6.0", complexity="O(size)")
def dump(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a key's value as bytes that RESTORE reads."""
    value = ctx.db.read(argv[1])
    if not isinstance(value, Stream) or value.length + sum(len(one.pending) for one in value.groups.values()) < _LONG:
        return None if value is None else dumped(value)
    # (A copy shares what does not change, and has a cache of its own.)
    return ctx.in_steps(argv, _dump_in_steps(value.copy(Storage())))


@key_command(
    "restore key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    "write denyoom",
    access="OW update",
    since="2.6.0",
    acl="keyspace dangerous",
    complexity="O(size)",
)
def restore(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates a key from the bytes that DUMP returned."""
    key, payload, db = argv[1], argv[3], ctx.db
    args = Args(argv, 4)
    replace = absolute = False
    idle = freq = None
    while len(args):
        if args.flag(b"REPLACE"):
            replace = True
        elif args.flag(b"ABSTTL"):
            absolute = True
        elif freq is None and args.option(b"IDLETIME"):
            idle = args.take_int()
            if idle < 0:
                raise CommandError(data.RESTORE_IDLETIME)
        elif idle is None and args.option(b"FREQ"):
            freq = args.take_int()
            if not 0 <= freq <= 255:
                raise CommandError(data.RESTORE_FREQ)
        else:
            raise CommandError(general.SYNTAX)
    if not replace and db.get(key) is not None:
        raise CommandError(data.BUSY_KEY)
    ttl = parse_int(argv[2])
    if ttl < 0:
        raise CommandError(data.RESTORE_TTL)

    def work() -> Generator[None, None, Reply]:
        now = ctx.now
        value = yield from _loaded(ctx, payload)
        if not replace and db.get(key) is not None:
            raise CommandError(data.BUSY_KEY)
        deadline = None
        if ttl:
            deadline = ttl if absolute else ttl + now
            if deadline >= 1 << 63:
                # Redis's sum overflows here, and the key is gone at once.
                raise CommandError(data.invalid_expire(b"restore"))
        return _put(ctx, argv, value, deadline, idle)

    return ctx.in_steps(argv, work()) if len(payload) > _LONG_PAYLOAD else Steps(argv, work()).all()


def _put(ctx: Context, argv: list[bytes], value: Value, deadline: int | None, idle: int | None) -> Reply:
    key, payload, db = argv[1], argv[3], ctx.db
    goes_at_once = deadline is not None and is_past(ctx, deadline)
    deleted = db.delete(key, changes=int(goes_at_once))
    if goes_at_once:
        if deleted:
            ctx.effect(b"DEL", key)
            ctx.changes.notify("g", b"del", key, db.index)
        return OK
    db.add(key, value)
    db.set_deadline(key, deadline)
    if idle is not None:
        db.set_idle(key, min(idle, _LONGEST_IDLE) * 1000)
    ctx.changes.notify("g", b"restore", key, db.index)
    ctx.effect(b"RESTORE", key, b"%d" % (deadline or 0), payload, b"REPLACE", b"ABSTTL")
    return OK
