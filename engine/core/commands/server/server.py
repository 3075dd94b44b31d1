"""Commands about the whole server: INFO, TIME, SHUTDOWN, CONFIG, MEMORY, DEBUG, COMMAND.

COMMAND derives everything from the declarations in the command table. DEBUG is for tests and benchmarks, if
``enable-debug-command`` allows it; as in Redis, it is one command and not a container, so an unknown subcommand and a
wrong number of arguments cause the same error. Clients and tools send the commands of features that the engine does not
have (a cluster, modules) when they connect or between tests. The reply is the same as from a Redis without the feature,
or an error that says that the feature is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from engine.core.commands.families import cluster_command, server_command
from engine.core.commands.server import monitoring
from engine.core.keyspace import footprint
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import NO_REPLY, OK, CommandError, Map, Reply, Set, Simple, Verbatim
from engine.core.table.declare import container, summary_of
from engine.core.table.registry import COMMANDS, SUB_KEY, Command, Handler, called_by, find
from engine.core.table.syntax import arguments
from engine.text import messages
from engine.version import ENGINE_VERSION, REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.environment.context import Context


#: Command -> the release of Redis that deprecated the command, and the replacement.
DEPRECATED = {
    "getset": ("6.2.0", "`SET` with the `!GET` argument"),
    "hmset": ("4.0.0", "`HSET` with multiple field-value pairs"),
    "quit": ("7.2.0", "just closing the connection"),
    "setnx": ("2.6.12", "`SET` with the `NX` argument"),
    "slaveof": ("5.0.0", "`REPLICAOF`"),
}
#: Commands for servers and their tests, not for applications.
INTERNAL = frozenset({"debug", "replconf"})


@server_command("info [section [section ...]]", "loading stale", acl="dangerous", complexity="O(connections)")
def info_(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns information about the server."""
    return Verbatim(monitoring.text(ctx, [word.decode("latin-1").lower() for word in argv[1:]]))


@server_command("time", "loading stale fast", since="2.6.0")
def time(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the server's time: seconds since the epoch, and microseconds of this second."""
    seconds, micros = divmod(ctx.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


@server_command(
    "shutdown [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
    "admin loading stale no_multi",
    complexity="O(N) with N bytes of data to save; O(1) without saving.",
)
def shutdown(ctx: Context, argv: list[bytes]) -> Reply:
    """Stops the server. ABORT cancels a shutdown that waits for replicas."""
    words = [word.upper() for word in argv[1:]]
    known = {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"}
    if set(words) - known or {b"SAVE", b"NOSAVE"} <= set(words) or (b"ABORT" in words and len(set(words)) > 1):
        raise CommandError(messages.SYNTAX)
    if b"ABORT" in words:
        ctx.replication.abort_shutdown()
        return OK
    if ctx.replication.delays_shutdown(frozenset(words), ctx.session):
        return ctx.block(argv, [], 0)
    ctx.durability.prepare_shutdown(set(words))
    ctx.host.shut_down()
    return NO_REPLY


config_subcommand = container(
    "config",
    "Commands that manage the configuration.",
    group="server",
    since="2.0.0",
    flags="admin loading stale",
    help_since="5.0.0",
)


@config_subcommand("get parameter [parameter ...]", complexity="O(directives)")
def get(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the directives that match one of the names or glob patterns, with their values."""
    return Map([word for pair in ctx.config.find(argv[2:]) for word in pair])


@config_subcommand("set parameter value [parameter value ...]", complexity="O(directives)")
def set_(ctx: Context, argv: list[bytes]) -> Reply:
    """Changes directives. If one of the changes is refused, none is made."""
    if len(argv) % 2:
        raise CommandError(messages.SYNTAX)
    error = ctx.config.change(list(zip(argv[2::2], argv[3::2], strict=True)))
    if error is not None:
        raise CommandError(error)
    return OK


@config_subcommand("rewrite", since="2.8.0")
def rewrite(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes the current values to the configuration file."""
    ctx.host.rewrite_configuration()
    return OK


@config_subcommand("resetstat")
def resetstat(ctx: Context, argv: list[bytes]) -> Reply:
    """Resets INFO's counters, except those of refused access."""
    ctx.telemetry.reset()
    ctx.changes.expired_keys = 0
    for db in ctx.databases:
        db.hits = db.misses = 0
    ctx.host.reset_statistics()
    ctx.durability.reset_statistics()
    ctx.replication.reset_statistics()
    return OK


#: Default number of sampled elements.
_SAMPLES = 5

memory_subcommand = container("memory", "Commands that inspect memory.", group="server", since="4.0.0")


@memory_subcommand(
    "usage key [SAMPLES count]",
    "readonly",
    keys=SUB_KEY,
    access="RO",
    complexity="O(samples); with SAMPLES 0, O(fields), or for streams O(segments + blocks of pending entries)",
)
def usage(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the size of a key and its value in bytes; large values are sampled."""
    args, samples = Args(argv, 3), _SAMPLES
    while len(args):
        if not args.option(b"SAMPLES"):
            raise CommandError(messages.SYNTAX)
        samples = args.take_int()
        if samples < 0:
            raise CommandError(messages.SYNTAX)
    key = argv[2]
    value = ctx.db.get(key)
    if value is None:
        return None
    return footprint.of_key(key, value, expires=ctx.db.deadline(key) is not None, samples=samples)


@memory_subcommand("purge")
def purge(ctx: Context, argv: list[bytes]) -> Reply:
    """Releases free memory to the operating system."""
    ctx.host.give_back_memory()
    return OK


# -- cluster ----------------------------------------------------------------------------------------------------------


def _no_cluster(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an error: the engine is not a node of a cluster."""
    raise CommandError(b"ERR This instance has cluster support disabled")


cluster_command("cluster subcommand [argument [argument ...]]", acl="", complexity="Depends on subcommand.")(
    _no_cluster
)
cluster_command("readonly", "loading stale fast")(_no_cluster)
cluster_command("readwrite", "loading stale fast")(_no_cluster)
cluster_command("asking", "fast")(_no_cluster)

# -- modules ----------------------------------------------------------------------------------------------------------

module_subcommand = container(
    "module",
    "Commands that manage modules; the engine has no modules.",
    group="server",
    since="4.0.0",
    flags="admin",
    help_since="5.0.0",
)


@module_subcommand("list")
def module_list(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an empty list: the engine has no modules."""
    return []


# -- version ----------------------------------------------------------------------------------------------------------


@server_command("lolwut [VERSION version]", "readonly fast", since="5.0.0")
def lolwut(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the server's versions."""
    return Verbatim(f"pystreams {ENGINE_VERSION}. Redis ver. {REDIS_VERSION}\n".encode())


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


@_sub("RELOAD [NOSAVE]", 0, 1)
def _reload(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes a snapshot (not with NOSAVE), deletes all data, and loads the snapshot."""
    if argv[2:] and argv[2].upper() != b"NOSAVE":
        raise CommandError(b"ERR DEBUG RELOAD only supports the NOSAVE option.")
    ctx.durability.reload(from_log=False, save=not argv[2:])
    return OK


@_sub("LOADAOF", 0, 0)
def _loadaof(ctx: Context, argv: list[bytes]) -> Reply:
    """Discards all data and loads the append-only file."""
    ctx.durability.reload(from_log=True, save=False)
    return OK


#: Internal flags that COMMAND INFO does not show.
_HIDDEN = frozenset({"may_replicate"})


def _words(names: frozenset[str] | list[str], prefix: str = "") -> Set:
    return Set([Simple(f"{prefix}{name}".encode()) for name in names])


# -- INFO -------------------------------------------------------------------------------------------------------------


def described(command: Command) -> Reply:
    """Return a command in the form of COMMAND INFO."""
    return [
        command.full_name,
        command.arity,
        _words(sorted(command.flags - _HIDDEN)),
        command.keys.first,
        command.keys.last,
        command.keys.step,
        _words(sorted(command.categories()), "@"),
        Set(),
        Set(),  # no key specifications: COMMAND GETKEYS finds the keys
        [described(sub) for sub in command.subcommands.values()],
    ]


def _all_described(ctx: Context, argv: list[bytes]) -> Reply:
    return [described(command) for command in COMMANDS.values()]


command_subcommand = container(
    "command",
    "Returns details about all commands.",
    group="server",
    acl="connection",
    since="2.8.13",
    flags="loading stale",
    help_since="5.0.0",
    alone=_all_described,
)


@command_subcommand("info [command-name [command-name ...]]", complexity="O(commands)")
def command_info(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns details about all or some commands."""
    if len(argv) == 2:
        return _all_described(ctx, argv)
    found = [find(name) for name in argv[2:]]
    return [None if command is None else described(command) for command in found]


@command_subcommand("count")
def count(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of commands."""
    return len(COMMANDS)


# -- DOCS -------------------------------------------------------------------------------------------------------------


def _documented(command: Command) -> Map:
    out = Map.of(
        {
            b"summary": command.summary.encode(),
            b"since": command.since.encode(),
            b"group": command.group.encode(),
            b"complexity": command.complexity.encode(),
        }
    )
    if command.name in DEPRECATED:
        deprecated_since, replaced_by = DEPRECATED[command.name]
        out += [b"deprecated_since", deprecated_since.encode(), b"replaced_by", replaced_by.encode()]
    marks = [Simple(b"deprecated")] * (command.name in DEPRECATED) + [Simple(b"syscmd")] * (command.name in INTERNAL)
    if marks:
        out += [b"doc_flags", Set(marks)]
    if command.syntax:
        out += [b"arguments", [argument.described() for argument in arguments(command.syntax)]]
    if command.subcommands:
        out += [
            b"subcommands",
            Map([x for sub in command.subcommands.values() for x in (sub.full_name, _documented(sub))]),
        ]
    return out


@command_subcommand("docs [command-name [command-name ...]]", since="7.0.0", complexity="O(commands)")
def docs(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the documentation of all or some commands."""
    found = [find(name) for name in argv[2:]] if len(argv) > 2 else list(COMMANDS.values())
    return Map([x for command in found if command is not None for x in (command.full_name, _documented(command))])


# -- GETKEYS ----------------------------------------------------------------------------------------------------------


def _keys_of(argv: list[bytes]) -> tuple[Command, list[bytes]]:
    command = called_by(argv)
    if command is None:
        raise CommandError(b"ERR Invalid command specified")
    if command.keys.are_none:
        raise CommandError(b"ERR The command has no key arguments")
    if not command.arity_fits(len(argv)):
        raise CommandError(b"ERR Invalid number of arguments specified for command")
    keys = command.keys.of(argv)
    if not keys:
        raise CommandError(b"ERR Invalid arguments specified for command")
    return command, keys


@command_subcommand("getkeys command [arg [arg ...]]", arity=-3, complexity="O(words)")
def getkeys(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the keys in a complete command."""
    return _keys_of(argv[2:])[1]
