"""DEBUG: what tests and harnesses ask a server to do, where ``enable-debug-command`` allows it.

One command, not a container, because Redis declares it so: what it does not know is answered alike for names and for
numbers of words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from engine.core.commands.data.dump import dumped
from engine.core.commands.data.keys import encoding
from engine.core.formats import export
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.image import DatabaseImage, Image
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Push, Reply, Set, Simple, Verbatim
from engine.core.table.registry import command
from engine.text.messages import general, persistence, server

if TYPE_CHECKING:
    from engine.core.environment.context import Context

Handler = Callable[["Context", list[bytes]], Reply]
#: Sub-command -> what does it, and the fewest and the most words that follow its name.
_TABLE: dict[bytes, tuple[Handler, int, int]] = {}
_MANY = 1 << 30


def _sub(name: str, low: int, high: int) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        _TABLE[name.encode()] = handler, low, high
        return handler

    return register


@command(
    "debug",
    arity=-2,
    flags="admin noscript loading stale",
    group="server",
    summary="Commands for tests.",
    complexity="Depends on subcommand.",
    syntax="subcommand [argument [argument ...]]",
)
def debug(ctx: Context, argv: list[bytes]) -> Reply:
    allowed = ctx.config.text("enable-debug-command")
    if allowed == b"no" or (allowed == b"local" and not ctx.session.addr.startswith((b"127.", b"[::1]", b"/"))):
        raise CommandError(server.DEBUG_NOT_ALLOWED)
    handler, low, high = _TABLE.get(argv[1].upper(), (None, 0, 0))
    if handler is None or not low <= len(argv) - 2 <= high:
        raise CommandError(general.subcommand_arguments(b"debug", argv[1]))
    return handler(ctx, argv)


def _nothing(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return OK


for _name in ("CHANGE-REPL-ID", "JMAP"):
    _sub(_name, 0, 0)(_nothing)
for _name in ("QUICKLIST-PACKED-THRESHOLD", "DICT-RESIZING", "PAUSE-CRON", "SET-DISABLE-DENY-SCRIPTS"):
    _sub(_name, 1, 1)(_nothing)
for _name in ("STRINGMATCH-LEN", "REPLYBUFFER"):
    _sub(_name, 2, 2)(_nothing)


@_sub("SLEEP", 1, 1)
def _sleep(ctx: Context, argv: list[bytes]) -> Reply:
    """Hold everybody up."""
    try:
        seconds = float(argv[2])
    except ValueError:
        seconds = 0.0
    if seconds > 0:
        ctx.host.sleep(seconds)
    return OK


@_sub("SET-ACTIVE-EXPIRE", 1, 1)
def _set_active_expire(ctx: Context, argv: list[bytes]) -> Reply:
    changes = ctx.changes
    changes.expires_actively = argv[2] != b"0"
    if changes.expires_actively:
        changes.next_expiry = ctx.now
    return OK


@_sub("OBJECT", 1, 2)
def _object(ctx: Context, argv: list[bytes]) -> Reply:
    value = ctx.db.peek(argv[2])
    if value is None:
        raise CommandError(general.NO_SUCH_KEY)
    idle = ctx.db.idle(argv[2]) // 1000
    clock = (ctx.now // 1000 - idle) & 0xFFFFFF
    # Without type, version and check sum, as Redis counts.
    size = len(dumped(value)) - 11
    return Simple(
        b"Value at:%#x refcount:1 encoding:%b serializedlength:%d lru:%d lru_seconds_idle:%d"
        % (id(value), encoding(value), size, clock, idle)
    )


@_sub("ERROR", 1, 1)
def _error(ctx: Context, argv: list[bytes]) -> Reply:
    raise CommandError(argv[2].replace(b"\r", b" ").replace(b"\n", b" "))


@_sub("LOG", 1, 1)
def _log(ctx: Context, argv: list[bytes]) -> Reply:
    ctx.host.log(argv[2])
    return OK


@_sub("POPULATE", 1, 3)
def _populate(ctx: Context, argv: list[bytes]) -> Reply:
    """String keys ``prefix:0`` and so on, of those that are not there yet."""
    prefix = argv[3] if len(argv) > 3 else b"key"
    size = parse_int(argv[4]) if len(argv) > 4 else 0
    for number in range(parse_int(argv[2])):
        key = b"%b:%d" % (prefix, number)
        if key not in ctx.db:
            value = b"value:%d" % number
            value = value[:size].ljust(size, b"\0") if size else value
            ctx.db.add(key, value)
            ctx.effect(b"SET", key, value)
    return OK


@_sub("RELOAD", 0, _MANY)
def _reload(ctx: Context, argv: list[bytes]) -> Reply:
    words = {word.upper() for word in argv[2:]}
    if words - {b"MERGE", b"NOFLUSH", b"NOSAVE"}:
        raise CommandError(persistence.DEBUG_RELOAD_OPTIONS)
    ctx.durability.reload(from_log=False, save=b"NOSAVE" not in words, flush=b"NOFLUSH" not in words)
    return OK


@_sub("LOADAOF", 0, 0)
def _loadaof(ctx: Context, argv: list[bytes]) -> Reply:
    ctx.durability.reload(from_log=True, save=False, flush=True)
    return OK


# -- digests ----------------------------------------------------------------------------------------------------------


def _digest(ctx: Context, key: bytes, value: Any, deadline: int | None) -> int:
    """A number for what clients see of a key; equal for equal keys, however they came to be."""
    deadlines = {} if deadline is None else {key: deadline}
    if isinstance(value, Hash):
        value = Hash(sorted(value.items()), big=value.big)
    elif isinstance(value, deque):
        value = deque(value)
    config = ctx.config
    defaults = config.integer("stream-idmp-duration"), config.integer("stream-idmp-maxsize")
    image = Image(ctx.now, [DatabaseImage(0, {key: value}, deadlines)], defaults)
    hashed = sha1(usedforsecurity=False)
    for part in export.commands(image):
        hashed.update(part)
    return int.from_bytes(hashed.digest(), "big")


@_sub("DIGEST", 0, 0)
def _all(ctx: Context, argv: list[bytes]) -> Reply:
    total = 0
    for db in ctx.databases:
        for key, value, deadline in db.items():
            whole = b"%d:%040x" % (db.index, _digest(ctx, key, value, deadline))
            total ^= int.from_bytes(sha1(whole, usedforsecurity=False).digest(), "big")
    return Simple(b"%040x" % total)


@_sub("DIGEST-VALUE", 0, _MANY)
def _values(ctx: Context, argv: list[bytes]) -> Reply:
    values = [(key, ctx.db.peek(key)) for key in argv[2:]]
    # The key itself does not count.
    return [b"%040x" % (0 if value is None else _digest(ctx, b"", value, None)) for key, value in values]


# -- values of each type of the protocol ------------------------------------------------------------------------------

_VALUES: dict[bytes, Callable[[], Reply]] = {
    b"string": lambda: b"Hello World",
    b"integer": lambda: 12345,
    b"double": lambda: 3.141,
    b"null": lambda: None,
    b"array": lambda: [0, 1, 2],
    b"set": lambda: Set([0, 1, 2]),
    b"map": lambda: Map([0, 0, 1, 1, 2, 0]),
    b"push": lambda: Push([b"server-cpu-usage", 42]),
    b"verbatim": lambda: Verbatim(b"This is a verbatim\nstring"),
}


@_sub("PROTOCOL", 1, 1)
def _protocol(ctx: Context, argv: list[bytes]) -> Reply:
    make = _VALUES.get(argv[2].lower())
    if make is None:
        raise CommandError(server.DEBUG_PROTOCOL)
    return make()


@_sub("HELP", 0, 0)
def _help(ctx: Context, argv: list[bytes]) -> Reply:
    return [Simple(line) for line in server.DEBUG_HELP]
