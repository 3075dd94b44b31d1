"""DEBUG: commands for tests, if ``enable-debug-command`` allows them.

As in Redis, DEBUG is one command and not a container: an unknown subcommand and a wrong number of arguments cause the
same error.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.core.commands.data.dump import dumped
from engine.core.commands.data.objects import encoding
from engine.core.commands.families import server_command
from engine.core.formats import export
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.image import DatabaseImage, Image
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Push, Reply, Set, Simple, Verbatim
from engine.core.table.declare import summary_of
from engine.core.table.registry import Handler
from engine.core.table.syntax import placeholders
from engine.text.messages import general, persistence, server

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Maximum number of arguments of a subcommand that accepts any number.
_MANY = 1 << 30
#: DEBUG SLEEP returns immediately if the duration is at least this many seconds, as in Redis.
_MOST_SECONDS = 1 << 31


class _Sub(NamedTuple):
    """A subcommand: its handler, the minimum and maximum number of its arguments, and their syntax."""

    handler: Handler
    low: int
    high: int
    syntax: str


_TABLE: dict[str, _Sub] = {}


def _sub(usage: str, low: int, high: int) -> Callable[[Handler], Handler]:
    """Declare a subcommand that accepts ``low`` to ``high`` arguments.

    ``usage`` is its name and arguments, which HELP shows above the handler's docstring.
    """

    def declare(handler: Handler) -> Handler:
        name, _, syntax = usage.partition(" ")
        _TABLE[name] = _Sub(handler, low, high, syntax)
        return handler

    return declare


@server_command(
    "debug subcommand [argument [argument ...]]", "admin loading stale", complexity="Depends on subcommand."
)
def debug(ctx: Context, argv: list[bytes]) -> Reply:
    """Runs commands for tests."""
    allowed = ctx.config.text("enable-debug-command")
    if allowed == b"no" or (allowed == b"local" and not ctx.session.addr.startswith((b"127.", b"[::1]", b"/"))):
        raise CommandError(server.DEBUG_NOT_ALLOWED)
    sub = _TABLE.get(argv[1].decode("latin-1").upper())
    if sub is None or not sub.low <= len(argv) - 2 <= sub.high:
        raise CommandError(general.subcommand_arguments(b"debug", argv[1]))
    ctx.divided.finish_all()
    return sub.handler(ctx, argv)


def _nothing(ctx: Context, argv: list[bytes]) -> Reply:
    """Has no effect, and returns OK."""
    return OK


for _usage, _words in (
    ("CHANGE-REPL-ID", 0),
    ("JMAP", 0),
    ("QUICKLIST-PACKED-THRESHOLD size", 1),
    ("DICT-RESIZING <0|1>", 1),
    ("PAUSE-CRON <0|1>", 1),
    ("SET-DISABLE-DENY-SCRIPTS <0|1>", 1),
    ("STRINGMATCH-LEN length pattern", 2),
    ("REPLYBUFFER subcommand argument", 2),
):
    _sub(_usage, _words, _words)(_nothing)


@_sub("SLEEP seconds", 1, 1)
def _sleep(ctx: Context, argv: list[bytes]) -> Reply:
    """Blocks the server for a number of seconds."""
    try:
        seconds = float(argv[2])
    except ValueError:
        seconds = 0.0
    if 0 < seconds < _MOST_SECONDS:
        ctx.host.sleep(seconds)
    return OK


@_sub("SET-ACTIVE-EXPIRE <0|1>", 1, 1)
def _set_active_expire(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets whether keys expire without being accessed."""
    changes = ctx.changes
    changes.expires_actively = argv[2] != b"0"
    if changes.expires_actively:
        changes.next_expiry = ctx.now
    return OK


@_sub("OBJECT key [option]", 1, 2)
def _object(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns how a value is stored."""
    value = ctx.db.peek(argv[2])
    if value is None:
        raise CommandError(general.NO_SUCH_KEY)
    idle = ctx.db.idle(argv[2]) // 1000
    clock = (ctx.now // 1000 - idle) & 0xFFFFFF
    # As in Redis, the 11 bytes of type, version and checksum are not counted.
    size = len(dumped(value)) - 11
    return Simple(
        b"Value at:%#x refcount:1 encoding:%b serializedlength:%d lru:%d lru_seconds_idle:%d"
        % (id(value), encoding(argv[2], value), size, clock, idle)
    )


@_sub("ERROR text", 1, 1)
def _error(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an error with the given text."""
    raise CommandError(argv[2].replace(b"\r", b" ").replace(b"\n", b" "))


@_sub("LOG text", 1, 1)
def _log(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes a line to the log."""
    ctx.host.log(argv[2])
    return OK


@_sub("POPULATE count [prefix] [size]", 1, 3)
def _populate(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates string keys named `prefix:0`, `prefix:1` and so on; existing keys stay unchanged."""
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


@_sub("RELOAD [MERGE] [NOFLUSH] [NOSAVE]", 0, _MANY)
def _reload(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes a snapshot (not with NOSAVE), deletes all data (not with NOFLUSH), and loads the snapshot."""
    words = {word.upper() for word in argv[2:]}
    if words - {b"MERGE", b"NOFLUSH", b"NOSAVE"}:
        raise CommandError(persistence.DEBUG_RELOAD_OPTIONS)
    ctx.durability.reload(from_log=False, save=b"NOSAVE" not in words, flush=b"NOFLUSH" not in words)
    return OK


@_sub("LOADAOF", 0, 0)
def _loadaof(ctx: Context, argv: list[bytes]) -> Reply:
    """Discards all data and loads the append-only file."""
    ctx.durability.reload(from_log=True, save=False, flush=True)
    return OK


# -- digests ----------------------------------------------------------------------------------------------------------


def _digest(ctx: Context, key: bytes, value: Any, deadline: int | None) -> int:
    """Return a digest of a key's visible state, regardless of the changes that led to this state."""
    hashed = sha1(usedforsecurity=False)
    if isinstance(value, Hash):
        value = Hash(sorted(value.items()))
    config = ctx.config
    defaults = config.integer("stream-idmp-duration"), config.integer("stream-idmp-maxsize")
    alone = DatabaseImage(0)
    alone.add([key], [value], {} if deadline is None else {key: deadline})
    image = Image(ctx.now, [alone], defaults)
    for part in export.commands(image):
        hashed.update(part)
    return int.from_bytes(hashed.digest(), "big")


@_sub("DIGEST", 0, 0)
def _all(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a digest of all keys."""
    total = 0
    for db in ctx.databases:
        for key, value, deadline in db.items():
            whole = b"%d:%040x" % (db.index, _digest(ctx, key, value, deadline))
            total ^= int.from_bytes(sha1(whole, usedforsecurity=False).digest(), "big")
    return Simple(b"%040x" % total)


@_sub("DIGEST-VALUE [key [key ...]]", 0, _MANY)
def _values(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns digests of values."""
    values = [(key, ctx.db.peek(key)) for key in argv[2:]]
    # The digest depends neither on the key's name nor on its expiry.
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


@_sub("PROTOCOL type", 1, 1)
def _protocol(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an example of a reply type, such as `map` or `double`."""
    make = _VALUES.get(argv[2].lower())
    if make is None:
        raise CommandError(server.DEBUG_PROTOCOL)
    return make()


@_sub("HELP", 0, 0)
def _help(ctx: Context, argv: list[bytes]) -> Reply:
    """Prints this help."""
    rows = [(f"{name} {placeholders(sub.syntax)}", summary_of(sub.handler)) for name, sub in sorted(_TABLE.items())]
    return [Simple(line) for line in general.help_lines("DEBUG", [row for row in rows if row[0] != "HELP "])]
