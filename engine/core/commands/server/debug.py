"""DEBUG: commands for tests and benchmarks, if ``enable-debug-command`` allows them.

As in Redis, DEBUG is one command and not a container: an unknown subcommand and a wrong number of arguments cause the
same error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from engine.core.commands.families import server_command
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import OK, CommandError, Reply, Simple
from engine.core.table.declare import summary_of
from engine.core.table.registry import Handler
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Maximum number of arguments of a subcommand that accepts any number.
_MANY = 1 << 30
#: DEBUG SLEEP returns immediately if the duration is at least this many seconds, as in Redis.
_MOST_SECONDS = 1 << 31


class _Sub(NamedTuple):
    """A subcommand: its syntax, its handler, and the minimum and maximum number of its arguments."""

    syntax: str
    handler: Handler
    low: int
    high: int


_TABLE: dict[str, _Sub] = {}


def _sub(syntax: str, low: int, high: int) -> Callable[[Handler], Handler]:
    """Declare a subcommand that accepts ``low`` to ``high`` arguments. ``syntax`` starts with its name."""

    def declare(handler: Handler) -> Handler:
        _TABLE[syntax.partition(" ")[0]] = _Sub(syntax, handler, low, high)
        return handler

    return declare


@server_command(
    "debug subcommand [argument [argument ...]]", "admin loading stale", complexity="Depends on subcommand."
)
def debug(ctx: Context, argv: list[bytes]) -> Reply:
    """Runs commands for tests."""
    allowed = ctx.config.text("enable-debug-command")
    if allowed == b"no" or (allowed == b"local" and not ctx.session.addr.startswith((b"127.", b"[::1]", b"/"))):
        raise CommandError(messages.DEBUG_NOT_ALLOWED)
    sub = _TABLE.get(argv[1].decode("latin-1").upper())
    if sub is None or not sub.low <= len(argv) - 2 <= sub.high:
        raise CommandError(messages.subcommand_arguments(b"debug", argv[1]))
    ctx.divided.finish_all()
    return sub.handler(ctx, argv)


@_sub("HELP", 0, 0)
def _help(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a description of the subcommands."""
    rows = [(sub.syntax, summary_of(sub.handler)) for name, sub in sorted(_TABLE.items()) if name != "HELP"]
    return [Simple(line) for line in messages.help_lines("DEBUG", rows)]


@_sub("SLEEP <seconds>", 1, 1)
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


@_sub("POPULATE <count> [<prefix> [<size>]]", 1, 3)
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


@_sub("RELOAD [NOSAVE] [NOFLUSH] [MERGE]", 0, _MANY)
def _reload(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes a snapshot (not with NOSAVE), deletes all data (not with NOFLUSH), and loads the snapshot."""
    words = {word.upper() for word in argv[2:]}
    if words - {b"MERGE", b"NOFLUSH", b"NOSAVE"}:
        raise CommandError(messages.DEBUG_RELOAD_OPTIONS)
    ctx.durability.reload(from_log=False, save=b"NOSAVE" not in words, flush=b"NOFLUSH" not in words)
    return OK


@_sub("LOADAOF", 0, 0)
def _loadaof(ctx: Context, argv: list[bytes]) -> Reply:
    """Discards all data and loads the append-only file."""
    ctx.durability.reload(from_log=True, save=False, flush=True)
    return OK
